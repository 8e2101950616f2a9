"""One update and one evaluation: what they compute, against the same written out by hand."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from normkit.blocks import token_norms
from normkit.lab.config import RunConfig
from normkit.lab.model import batch_statistics, build_model, uses_batch_statistics
from normkit.lab.task import IGNORED
from normkit.lab.train import Trainer
from tests.lab import small


def trainer(**changes: Any) -> Trainer:
    """A trainer at its start."""
    config = small.config(**changes)
    return Trainer(config, small.task(config))


def weights(of: Trainer) -> list[Tensor]:
    """Copies of all parameters."""
    return [parameter.detach().clone() for parameter in of.model.parameters()]


def straight_line(config: RunConfig, steps: int) -> tuple[list[float], list[Tensor]]:
    """The loop as anyone would write it, with torch's plain AdamW."""
    task = small.task(config)
    model = build_model(config, task.vocabulary)
    spec = config.training
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimiser = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": spec.weight_decay}, {"params": others}],
        weight_decay=0.0,
        betas=spec.betas,
        foreach=False,
        fused=False,
    )
    losses = []
    for step in range(steps):
        batch = task.batch(config.batch_size, seed=config.seed, step=step)
        logits = model(batch.tokens_BT, batch.valid_BT)
        picked = batch.targets_BT != IGNORED
        loss = F.cross_entropy(logits[picked], batch.targets_BT[picked])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if spec.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), spec.clip_norm)
        for group in optimiser.param_groups:
            group["lr"] = config.lr * min(1.0, (step + 1) / max(1, spec.warmup_steps))
        optimiser.step()
        losses.append(loss.item())
    return losses, [parameter.detach() for parameter in model.parameters()]


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "lines": {"shape": "lines"},
    "pads": {"shape": "lines", "norm": "masked_batch_norm"},
    "warm-up": {"training": {"warmup_steps": 3}},
    "decay": {"training": {"weight_decay": 0.5}},
    "no clip": {"training": {"clip_norm": None}},
    "clip": {"training": {"clip_norm": 0.01}},
    "betas": {"training": {"betas": (0.5, 0.6)}},
}


@pytest.mark.parametrize("case", CASES)
def test_updates_are_those_of_a_plain_loop(case: str) -> None:
    """Losses and weights after four steps, in float64."""
    found = trainer(dtype="float64", lr=0.01, **CASES[case])
    losses = [found.update()[0].item() for _ in range(4)]
    expected, parameters = straight_line(found.config, 4)
    assert losses == pytest.approx(expected, rel=1e-9)
    for mine, theirs in zip(weights(found), parameters, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm", "no_norm"])
@pytest.mark.parametrize("shape", ["windows", "lines"])
def test_accumulation_changes_nothing(norm: str, shape: str) -> None:
    """Pieces of unequal numbers of characters add up to the batch, for norms of one token."""
    changes = {"norm": norm, "shape": shape, "dtype": "float64", "lr": 0.01}
    whole, cut = trainer(**changes), trainer(training={"accumulation": 4}, **changes)
    for _ in range(3):
        torch.testing.assert_close(whole.update()[0], cut.update()[0], rtol=1e-10, atol=0)
    for one, other in zip(weights(whole), weights(cut), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-10)
    assert whole.tokens == cut.tokens


def test_accumulation_changes_batch_norm() -> None:
    """Its statistics are those of a piece: this is why batch size and accumulation are two."""
    whole = trainer(norm="batch_norm", dtype="float64")
    cut = trainer(norm="batch_norm", dtype="float64", training={"accumulation": 4})
    assert abs(whole.update()[0].item() - cut.update()[0].item()) > 1e-6


def test_seeds() -> None:
    """One seed: the same run, bit for bit. Another seed: other weights and other batches."""
    first, again, other = trainer(), trainer(), trainer(seed=1)
    assert all(map(torch.equal, weights(first), weights(again)))
    assert not all(map(torch.equal, weights(first), weights(other)))
    losses = [[run.update()[0].item() for _ in range(3)] for run in (first, again, other)]
    assert losses[0] == losses[1] != losses[2]


def test_norms_of_one_seed_start_alike() -> None:
    """All weights that are not the norm's are the same: the difference is the norm's."""

    def others(norm: str) -> dict[str, Tensor]:
        names = trainer(norm=norm).model.state_dict()
        return {name: value for name, value in names.items() if "norm" not in name}

    expected = others("layer_norm")
    for norm in token_norms():
        found = others(norm)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_dropout_depends_on_seed_and_step_alone() -> None:
    """A resumed run drops the same elements."""
    first, other = trainer(model={"dropout": 0.5}), trainer(model={"dropout": 0.5})
    before = first.update()[0]
    torch.manual_seed(5)
    assert torch.equal(other.update()[0], before)
    assert not torch.equal(trainer().update()[0], before)


def test_bfloat16_is_autocast() -> None:
    """Weights stay float32, the forward pass rounds: near the float32 loss and not equal to it."""
    half, full = trainer(dtype="bfloat16"), trainer()
    assert {parameter.dtype for parameter in half.model.parameters()} == {torch.float32}
    loss, reference = half.update()[0].item(), full.update()[0].item()
    assert 0 < abs(loss - reference) < 0.05


@pytest.mark.parametrize("shape", ["windows", "lines"])
def test_evaluation_is_the_mean_over_characters(shape: str) -> None:
    """Whatever the batches: the same number as one pass over each sequence by itself."""
    run = trainer(shape=shape, dtype="float64")
    run.update()
    total, count = 0.0, 0
    run.model.eval()
    with torch.no_grad():
        for batch in run.task.validation(1):
            logits = run.model(batch.tokens_BT, batch.valid_BT)
            total += F.cross_entropy(logits[0], batch.targets_BT[0], reduction="sum").item()
            count += batch.characters
    run.model.train()
    assert run.evaluate() == {"validation": pytest.approx(total / count, rel=1e-9)}
    assert run.model.training


def test_who_uses_batch_statistics() -> None:
    """Read off the registry."""
    assert {norm for norm in token_norms() if uses_batch_statistics(norm)} == {
        "batch_norm",
        "masked_batch_norm",
    }


@pytest.mark.parametrize("norm", ["batch_norm", "masked_batch_norm"])
def test_evaluation_with_batch_statistics(norm: str) -> None:
    """Running statistics, and those of batches of the training size; buffers stay as they were."""
    run = trainer(norm=norm, shape="lines", dtype="float64")
    for _ in range(3):
        run.update()
    before = {name: buffer.clone() for name, buffer in run.model.named_buffers()}
    found = run.evaluate()
    after = dict(run.model.named_buffers())
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    total, count = 0.0, 0
    for batch in run.task.validation(run.config.batch_size):
        logits = run.model(batch.tokens_BT, batch.valid_BT)  # the model is in training mode
        picked = batch.targets_BT != IGNORED
        total += F.cross_entropy(logits[picked], batch.targets_BT[picked], reduction="sum").item()
        count += batch.characters
    assert found["validation_batch_statistics"] == pytest.approx(total / count, rel=1e-9)
    assert abs(found["validation"] - found["validation_batch_statistics"]) > 1e-3


def test_batch_statistics_are_put_back_after_an_error() -> None:
    """Also when the block raises."""
    run = trainer(norm="batch_norm")
    run.model.eval()
    before = [buffer.clone() for buffer in run.model.buffers()]
    batch = run.task.validation(4)[0]
    with contextlib.suppress(KeyboardInterrupt), batch_statistics(run.model):
        run.model(batch.tokens_BT)
        raise KeyboardInterrupt
    assert all(map(torch.equal, before, run.model.buffers()))
    assert not any(module.training for module in run.model.modules())


def test_state_goes_on_bit_for_bit() -> None:
    """A new trainer with the state of another takes the same steps."""
    first = trainer(norm="batch_norm", model={"dropout": 0.1}, training={"weight_decay": 0.1})
    for _ in range(3):
        first.update()
    second = Trainer(first.config, first.task)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for _ in range(3):
        assert torch.equal(first.update()[0], second.update()[0])
    assert all(map(torch.equal, weights(first), weights(second)))
    assert (first.step, first.tokens) == (second.step, second.tokens)
