"""ONNX Runtime on the CPU, forward only."""

from __future__ import annotations

from typing import Any

import torch

from normkit.benchmark.peers import onnx_graph
from normkit.benchmark.peers.in_torch import first_line
from normkit.benchmark.peers.peer import Peer, RefusedError
from normkit.benchmark.task import Bound, Outputs, Task


class OnnxRuntimePeer(Peer):
    """LayerNormalization, SimplifiedLayerNormalization and their Skip forms.

    Inputs are read where torch has them and outputs are written into fresh torch tensors, so a
    call allocates as a torch op does and nothing is copied.
    """

    name = "onnxruntime"
    needs = ("onnx", "onnxruntime")
    modules = ("onnx", "onnxruntime")

    def bind(self, task: Task) -> Bound | None:
        """Build a session, and bind its inputs."""
        if task.mode != "forward" or task.device != "cpu":
            return None
        graph = onnx_graph.build(task)
        if graph is None:
            return None
        session = _session(graph, task)
        binding, kind = session.io_binding(), onnx_graph.element_type(task.dtype)
        for name in onnx_graph.STREAMS:
            if name in task.inputs:
                pointer = task.inputs[name].data_ptr()
                binding.bind_input(name, "cpu", 0, kind, list(task.shape), pointer)

        def forward() -> Outputs:
            outputs = tuple(torch.empty_like(task.inputs["x"]) for _ in task.op.outputs)
            for name, y in zip(task.op.outputs, outputs, strict=True):
                binding.bind_output(name, "cpu", 0, kind, list(task.shape), y.data_ptr())
            session.run_with_iobinding(binding)
            return outputs

        return Bound(call=forward, leaves={})


def _session(graph: bytes, task: Task) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = task.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # a dtype without a kernel is told by the error alone
    # Its threads spin during a call, as it likes to, and not into the next implementation's time.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its own errors share no other base
        raise RefusedError(first_line(error)) from error
