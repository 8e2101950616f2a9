"""An ONNX graph of one node, for the runtimes that read ONNX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from normkit.benchmark.task import Task

OPSET = 17  # the first with LayerNormalization
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Node:
    """An ONNX operator that computes one of our ops."""

    kind: str
    domain: str
    eps: float
    outputs: tuple[str, ...]  # "" leaves an optional one out


NODES = {
    "layer_norm": Node("LayerNormalization", "", 1e-5, ("y",)),
    "rms_norm": Node("SimplifiedLayerNormalization", "", 1e-6, ("y",)),
    "add_layer_norm": Node("SkipLayerNormalization", MICROSOFT, 1e-5, ("y", "", "", "h")),
    "add_rms_norm": Node("SkipSimplifiedLayerNormalization", MICROSOFT, 1e-6, ("y", "", "", "h")),
}
STREAMS = ("x", "residual")  # what changes from call to call; parameters are constants of the graph


def element_type(dtype: torch.dtype) -> int:
    """ONNX's number for a dtype."""
    from onnx import TensorProto

    numbers: dict[torch.dtype, int] = {
        torch.float32: TensorProto.FLOAT,
        torch.float64: TensorProto.DOUBLE,
        torch.float16: TensorProto.FLOAT16,
        torch.bfloat16: TensorProto.BFLOAT16,
    }
    return numbers[dtype]


def build(task: Task) -> bytes | None:
    """The graph of a task, serialised, with its parameters inside; None where there is no node."""
    from onnx import helper

    node = NODES.get(task.op.name)
    if node is None:
        return None
    kind, shape = element_type(task.dtype), list(task.shape)
    attributes: dict[str, Any] = {} if node.domain else {"axis": -1}
    norm = helper.make_node(
        node.kind,
        list(task.inputs),
        list(node.outputs),
        domain=node.domain,
        epsilon=node.eps,
        **attributes,
    )
    graph = helper.make_graph(
        [norm],
        task.op.name,
        [helper.make_tensor_value_info(n, kind, shape) for n in task.inputs if n in STREAMS],
        [helper.make_tensor_value_info(n, kind, shape) for n in task.op.outputs],
        [_constant(name, t, kind) for name, t in task.inputs.items() if name not in STREAMS],
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    serialised: bytes = model.SerializeToString()
    return serialised


def _constant(name: str, tensor: Tensor, kind: int) -> Any:
    from onnx import helper

    data = bytes(tensor.detach().contiguous().view(torch.uint8).numpy())
    return helper.make_tensor(name, kind, list(tensor.shape), data, raw=True)
