"""Implementations of others: what they compute, what they refuse, what is missing."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from normkit.benchmark import OPS
from normkit.benchmark.accuracy import compare, results, truth
from normkit.benchmark.peers import PEERS, RefusedError
from normkit.benchmark.peers.in_torch import CompilePeer, first_line
from normkit.benchmark.peers.in_transformers import TransformersPeer
from normkit.benchmark.peers.onnx_graph import NODES, build
from normkit.benchmark.task import make_task


@pytest.mark.parametrize("name", NODES)
def test_onnx_runtime_computes_the_op(name: str) -> None:
    """Every node of the table, outputs in the order of the op, in float32."""
    task = make_task(OPS[name], "forward", (6, 32), torch.float32)
    bound = PEERS["onnxruntime"].bind(task)
    assert bound is not None
    found, want = results(task, bound), truth(task)
    assert list(found) == list(OPS[name].outputs)
    for key in found:
        assert compare(found[key], want[key], (-1,))[0] < 8


def test_onnx_runtime_allocates_each_time() -> None:
    """As a torch op does: an output of before is not written again."""
    task = make_task(OPS["rms_norm"], "forward", (6, 32), torch.float32)
    bound = PEERS["onnxruntime"].bind(task)
    assert bound is not None
    (first,), (second,) = bound.forward(), bound.forward()
    assert first.data_ptr() != second.data_ptr()
    assert torch.equal(first, second)


def test_onnx_runtime_reads_memory_where_it_is() -> None:
    """No copy of x is kept: what changes in x is seen."""
    task = make_task(OPS["rms_norm"], "forward", (6, 32), torch.float32)
    bound = PEERS["onnxruntime"].bind(task)
    assert bound is not None
    (before,) = bound.forward()
    task.inputs["x"].neg_()
    assert torch.equal(bound.forward()[0], -before)


def test_onnx_runtime_refuses_what_it_has_no_kernel_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the first line of its own words."""
    monkeypatch.setattr("normkit.benchmark.peers.onnx_graph.build", lambda task: b"no graph")
    task = make_task(OPS["rms_norm"], "forward", (6, 32), torch.float32)
    with pytest.raises(RefusedError, match=r"^\[ONNXRuntimeError\]"):
        PEERS["onnxruntime"].bind(task)


@pytest.mark.parametrize("peer", ["onnxruntime", "openvino"])
def test_forward_only(peer: str) -> None:
    """Neither modules nor gradients, and no norm without a node."""
    for name, mode in (("rms_norm", "forward_backward"), ("rms_norm", "module")):
        task = make_task(OPS[name], mode, (6, 32), torch.float32)  # type: ignore[arg-type]
        assert PEERS[peer].bind(task) is None
    assert build(make_task(OPS["gated_rms_norm"], "forward", (6, 32), torch.float32)) is None


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are not there, and only those."""
    monkeypatch.setattr(
        "normkit.benchmark.peers.peer.find_spec", lambda name: None if name == "openvino" else 1
    )
    assert PEERS["openvino"].missing() == "openvino is missing: type pip install openvino"
    assert PEERS["onnxruntime"].missing() is None
    assert PEERS["torch"].missing() is None


def test_compiled_functions_are_torchs() -> None:
    """Traced by Dynamo for each task anew; nothing is compiled to machine code here."""
    peer = CompilePeer(backend="aot_eager")
    for shape in ((6, 32), (3, 8)):
        task = make_task(OPS["rms_norm"], "forward_backward", shape, torch.float32)
        bound = peer.bind(task)
        assert bound is not None
        found, want = results(task, bound), truth(task)
        for key in found:
            torch.testing.assert_close(found[key].double(), want[key], rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()


@pytest.mark.parametrize("peer", ["normkit", "torch"])
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_modules(name: str, peer: str) -> None:
    """A Module call computes the norm of x alone, in the dtype of the task."""
    task = make_task(OPS[name], "module", (1, 32), torch.bfloat16)
    bound = PEERS[peer].bind(task)
    assert bound is not None
    with torch.no_grad():
        (y,) = bound.forward()
    x = task.inputs["x"].float()
    x = x - x.mean() if name == "layer_norm" else x
    torch.testing.assert_close(y.float(), x / x.square().mean().sqrt(), rtol=0.02, atol=0.02)
    assert y.dtype == torch.bfloat16


@pytest.mark.parametrize("peer", ["formula", "script"])
def test_no_module_of_a_formula(peer: str) -> None:
    """There is none to call."""
    task = make_task(OPS["rms_norm"], "module", (1, 32), torch.float32)
    assert PEERS[peer].bind(task) is None


def test_a_function_that_script_does_not_take() -> None:
    """Said with the compiler's first words."""
    task = make_task(OPS["rms_norm"], "forward", (6, 32), torch.float32)
    op = OPS["rms_norm"].__class__(**{**vars(OPS["rms_norm"]), "formula": _untypable})
    task = task.__class__(**{**vars(task), "op": op})
    with pytest.raises(RefusedError, match=r"^TorchScript does not take it: "):
        PEERS["script"].bind(task)


def _untypable(x: Tensor, weight: Tensor) -> Tensor:
    return x if type(weight) is Tensor else {}  # type: ignore[return-value]


class LlamaRMSNorm(nn.Module):
    """What transformers has under this name."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.variance_epsilon = eps

    def forward(self, x: Tensor) -> Tensor:
        """RMSNorm, rounded before the gain."""
        h = x.float()
        h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * h.to(x.dtype)


def test_modules_of_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its class by its name, with the task's weight, and a gradient for it."""
    code = ModuleType("modeling_llama")
    code.LlamaRMSNorm = LlamaRMSNorm  # type: ignore[attr-defined]
    place = "transformers.models.llama.modeling_llama"
    for name in ("transformers", "transformers.models", "transformers.models.llama"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, place, code)
    task = make_task(OPS["rms_norm"], "forward_backward", (6, 32), torch.float32)
    bound = TransformersPeer().bind(task)
    assert bound is not None
    found, want = results(task, bound), truth(task)
    for key in found:
        torch.testing.assert_close(found[key].double(), want[key], rtol=1e-4, atol=1e-5)
    assert (
        TransformersPeer().bind(make_task(OPS["layer_norm"], "forward", (2, 4), torch.float32))
        is None
    )


def test_first_line() -> None:
    """Of an error that starts with empty lines, or says nothing."""
    assert first_line(ValueError("\n  one\ntwo")) == "one"
    assert first_line(ValueError()) == "no reason"
