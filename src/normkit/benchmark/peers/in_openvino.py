"""OpenVINO on the CPU, forward only."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from normkit.benchmark.peers import onnx_graph
from normkit.benchmark.peers.in_torch import first_line
from normkit.benchmark.peers.peer import Peer, RefusedError
from normkit.benchmark.task import Bound, Outputs, Task


class OpenVinoPeer(Peer):
    """What OpenVINO makes of the ONNX graphs; memory is handled as for ONNX Runtime."""

    name = "openvino"
    needs = ("onnx", "openvino")
    modules = ("onnx", "openvino")

    def bind(self, task: Task) -> Bound | None:
        """Compile the graph, and bind its inputs."""
        if task.mode != "forward" or task.device != "cpu":
            return None
        graph = onnx_graph.build(task)
        if graph is None:
            return None
        compiled = _compiled(graph, task)
        request = compiled.create_infer_request()
        for place in compiled.inputs:
            request.set_tensor(place, shared(task.inputs[place.get_any_name()]))
        places = [compiled.output(name) for name in task.op.outputs]

        def forward() -> Outputs:
            outputs = tuple(torch.empty_like(task.inputs["x"]) for _ in places)
            for place, y in zip(places, outputs, strict=True):
                request.set_tensor(place, shared(y))
            request.infer(share_outputs=True)
            return outputs

        return Bound(call=forward, leaves={})


def _compiled(graph: bytes, task: Task) -> Any:
    import openvino

    core = openvino.Core()
    options = {
        "INFERENCE_NUM_THREADS": task.threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        # Otherwise float32 is computed in bfloat16 where the processor can.
        "INFERENCE_PRECISION_HINT": {torch.float16: "f16", torch.bfloat16: "bf16"}.get(
            task.dtype, "f32"
        ),
    }
    try:
        return core.compile_model(core.read_model(graph, b""), "CPU", options)
    except Exception as error:  # its own errors share no other base
        raise RefusedError(first_line(error)) from error


def shared(tensor: Tensor) -> Any:
    """An OpenVINO tensor over the memory of a torch tensor."""
    import openvino

    if tensor.dtype != torch.bfloat16:
        return openvino.Tensor(tensor.detach().numpy(), shared_memory=True)
    bits = tensor.detach().view(torch.int16).numpy()
    return openvino.Tensor(bits, list(tensor.shape), openvino.Type.bf16)
