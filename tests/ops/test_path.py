"""Which path a call takes: the choice itself, and what `describe_paths` says of it."""

from __future__ import annotations

import pytest
import torch

from normkit import ops
from normkit.ops import Situation, situation
from normkit.spec import FUSED_OPS, NORMS


def test_each_situation_is_recognised() -> None:
    x = torch.ones(2, requires_grad=True)
    assert situation(x) is Situation.GRADIENT
    assert situation(x.detach(), None) is Situation.NO_GRADIENT
    with torch.no_grad():
        assert situation(x) is Situation.NO_GRADIENT
    seen: list[Situation] = []

    def look(t: torch.Tensor) -> torch.Tensor:
        seen.append(situation(t))
        return t.sum()

    torch.func.grad(look)(x.detach())
    torch.func.vmap(look)(x.detach())
    with torch.autograd.forward_ad.dual_level():
        look(x)
    assert seen == [Situation.FUNCTIONAL] * 3


def test_compiling_is_recognised() -> None:
    def branch(t: torch.Tensor) -> torch.Tensor:
        return t + (10 if situation(t) is Situation.COMPILED else 0)

    x = torch.zeros(2)
    assert torch.compile(branch, backend="eager", fullgraph=True)(x).tolist() == [10, 10]
    torch._dynamo.reset()


def test_the_table_names_every_op_in_every_situation() -> None:
    rows = ops.describe_paths()
    names = {entry.op for entry in NORMS.values() if entry.op} | set(FUSED_OPS)
    assert {(row.op, row.situation) for row in rows} == {
        (name, where.value) for name in names for where in Situation
    }
    assert all(row.path and row.reason for row in rows)


@pytest.mark.parametrize("training", [True, False])
def test_the_function_saves_its_inputs_alone(training: bool) -> None:
    from normkit.functional import batch_norm, layer_norm, rms_norm
    from normkit.measure import saved_bytes

    x = torch.randn(64, 32).bfloat16().requires_grad_()
    weight = torch.ones(32, requires_grad=True)
    calls = [
        lambda t: layer_norm(t, 32, weight, weight),
        lambda t: rms_norm(t, 32, weight),
        lambda t: batch_norm(t, torch.zeros(32), torch.ones(32), weight, training=training).y,
    ]
    for call in calls:
        kept = saved_bytes(call, x)
        assert kept.inputs == 64 * 32 * 2
        assert kept.new <= 3 * 32 * 4  # weight, mean and variance, made outside
