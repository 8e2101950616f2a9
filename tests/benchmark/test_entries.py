"""The table of ops: each entry computes one function three ways, and moves the bytes it says."""

from __future__ import annotations

import pytest
import torch

from normkit import functional
from normkit.benchmark import OPS, moved_bytes
from normkit.benchmark.accuracy import results, truth
from normkit.benchmark.entry import MASKS, make_inputs
from normkit.benchmark.peers import PEERS
from normkit.benchmark.task import make_task
from tests.benchmark.small import shape_of

IN_TORCH = ("normkit", "torch", "formula", "script")


@pytest.mark.parametrize("peer", IN_TORCH)
@pytest.mark.parametrize("name", OPS)
def test_everybody_computes_the_same(name: str, peer: str) -> None:
    """Outputs and gradients agree with float64: the entries name one function."""
    task = make_task(OPS[name], "forward_backward", shape_of(name), torch.float32)
    bound = PEERS[peer].bind(task)
    assert bound is not None
    found, want = results(task, bound), truth(task)
    assert found.keys() == want.keys()
    assert len(found) == len(OPS[name].outputs) + len(OPS[name].differentiable(task.shape))
    for key in found:
        torch.testing.assert_close(found[key].double(), want[key], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OPS)
def test_an_entry_is_a_function_of_ours(name: str) -> None:
    """By the same name."""
    assert callable(getattr(functional, name))


S = 4 * 8 * 2  # one (4, 8) tensor of bfloat16
N = 8 * 2  # a parameter of it
BY_HAND: dict[str, tuple[int, int]] = {
    # forward: inputs and outputs; backward: gradients and what is kept, both ways.
    "layer_norm": (S + 2 * N + S, (S + S + N) + (S + 2 * N)),
    "rms_norm": (S + N + S, (S + S + N) + (S + N)),
    "add_layer_norm": (2 * S + 2 * N + 2 * S, (2 * S + S + N) + (S + 2 * N)),
    "add_rms_norm": (2 * S + N + 2 * S, (2 * S + S + N) + (S + N)),
    "gated_rms_norm": (2 * S + N + S, (S + 2 * S + N) + (2 * S + N)),
    "adaptive_layer_norm": (S + 2 * N + S, (S + S + N) + (S + 2 * N)),
    "adaptive_rms_norm": (S + 2 * N + S, (S + S + N) + (S + 2 * N)),
    "norm_linear": (S + N + 8 * N + S, (S + S + N + 8 * N) + (S + N + 8 * N)),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_bytes_of_tokens(name: str) -> None:
    """Counted by hand for x (4, 8) in bfloat16."""
    forward, backward = BY_HAND[name]
    assert moved_bytes(OPS[name], "forward", (4, 8), 2) == forward
    assert moved_bytes(OPS[name], "module", (4, 8), 2) == forward
    assert moved_bytes(OPS[name], "forward_backward", (4, 8), 2) == forward + backward


@pytest.mark.parametrize("name", ["channel_layer_norm", "group_norm"])
def test_bytes_of_images(name: str) -> None:
    """Parameters are as many as channels: x (2, 64, 3, 5) in float32."""
    x, c = 2 * 64 * 3 * 5 * 4, 64 * 4
    assert moved_bytes(OPS[name], "forward", (2, 64, 3, 5), 4) == x + 2 * c + x
    both = (x + 2 * c + x) + (x + x + c) + (x + 2 * c)
    assert moved_bytes(OPS[name], "forward_backward", (2, 64, 3, 5), 4) == both


def test_bytes_of_a_mask() -> None:
    """One a token, read both ways, without a gradient: x (2, 3, 8) in float32."""
    x, c, valid = 2 * 3 * 8 * 4, 8 * 4, 2 * 3
    assert moved_bytes(OPS["batch_norm"], "forward", (2, 3, 8), 4) == x + 2 * c + valid + x
    both = (x + 2 * c + valid + x) + (x + x + c + valid) + (x + 2 * c)
    assert moved_bytes(OPS["batch_norm"], "forward_backward", (2, 3, 8), 4) == both


def test_one_scale_for_each_sample() -> None:
    """x (2, 3, 8) has scale and shift (2, 1, 8)."""
    assert OPS["adaptive_layer_norm"].sizes((2, 3, 8)) == {
        "x": (2, 3, 8),
        "scale": (2, 1, 8),
        "shift": (2, 1, 8),
    }


@pytest.mark.parametrize(
    ("name", "forward", "both"), [("rms_norm", 1, 2.5), ("add_rms_norm", 2, 4)]
)
def test_limits_in_copies(name: str, forward: float, both: float) -> None:
    """Wide enough, the parameters do not count: a copy moves two tensors."""
    copy = 2 * 4096 * 1024 * 4
    assert moved_bytes(OPS[name], "forward", (4096, 1024), 4) / copy == pytest.approx(
        forward, rel=1e-3
    )
    assert moved_bytes(OPS[name], "forward_backward", (4096, 1024), 4) / copy == pytest.approx(
        both, rel=1e-3
    )


@pytest.mark.parametrize("name", OPS)
def test_the_kept_tensors_are_enough(name: str) -> None:
    """What the byte model says that the backward pass reads are tensors of the op."""
    op = OPS[name]
    known = {*op.sizes(op.shape), *op.outputs}
    assert set(op.kept) <= known
    assert set(op.shared) <= set(op.differentiable(op.shape))
    assert len(op.shape) in op.axes


def test_inputs() -> None:
    """The same every time, of the dtype that was asked for; a mask is bool and has padding."""
    first, again = (make_inputs(OPS["batch_norm"], (2, 8, 4), torch.bfloat16) for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert {name: t.dtype for name, t in first.items()} == {
        name: torch.bool if name in MASKS else torch.bfloat16 for name in first
    }
    assert first["valid"].sum(1).tolist() == [6, 6]
    assert 0.5 < float(first["weight"].float().mean()) < 1.5
