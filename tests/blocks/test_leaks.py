"""What a token may depend on: never a later one (causal), never a pad."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from normkit.blocks import CausalLM, Encoder, TransformerConfig, token_norms
from normkit.spec import PLACEMENTS

PER_TOKEN = ("layer_norm", "rms_norm", "no_norm")
MASKED = ("layer_norm", "masked_batch_norm")
V, T = 11, 8


def model(
    norm: str, placement: str = "pre", *, causal: bool = True, positions: str = "learned"
) -> CausalLM | Encoder:
    """Build a small float64 model."""
    config = TransformerConfig(
        vocabulary=V, width=8, heads=2, depth=2, max_length=16,
        norm=norm, placement=placement, positions=positions,
    )  # fmt: skip
    return (CausalLM(config) if causal else Encoder(config)).double()


def changed_before(lm: CausalLM | Encoder, at: int) -> tuple[bool, bool]:
    """Replace token ``at``: does anything before it change, does anything from it on change?"""
    tokens = torch.randint(V, (3, T))
    other = tokens.clone()
    other[:, at] = (other[:, at] + 1) % V
    different = (lm(tokens) != lm(other)).any(-1).any(0)
    return bool(different[:at].any()), bool(different[at:].any())


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("norm", PER_TOKEN)
def test_causal(norm: str, placement: str) -> None:
    """Outputs before a changed token stay as they are, bit for bit."""
    lm = model(norm, placement)
    assert [changed_before(lm, at) for at in range(1, T)] == [(False, True)] * (T - 1)


@pytest.mark.parametrize("norm", ["batch_norm", "masked_batch_norm", "power_norm"])
def test_batch_statistics_over_time_leak_the_future(norm: str) -> None:
    """Known and documented: in training a norm over (batch, time) tells the past of the future.

    Its training loss in a causal model is therefore not comparable. Running statistics do not leak.
    """
    lm = model(norm)
    assert changed_before(lm, T - 1) == (True, True)
    assert changed_before(lm.eval(), T - 1) == (False, True)


def test_encoder_reads_both_ways() -> None:
    """The bidirectional model does depend on later tokens."""
    assert changed_before(model("layer_norm", causal=False), T - 1) == (True, True)


@settings(max_examples=30)
@given(
    row=st.lists(st.booleans(), min_size=1, max_size=10).filter(any),
    norm=st.sampled_from(PER_TOKEN),
    causal=st.booleans(),
    positions=st.sampled_from(["learned", "sinusoidal"]),
)
def test_pads_are_as_if_they_were_not_there(
    row: list[bool], norm: str, causal: bool, positions: str
) -> None:
    """Wherever pads stand, real tokens get what they get in the row without its pads."""
    lm = model(norm, causal=causal, positions=positions)
    valid = torch.tensor([row])
    tokens = torch.randint(V, valid.shape)
    alone = lm(tokens[valid][None])[0]
    torch.testing.assert_close(lm(tokens, valid)[valid], alone, rtol=0, atol=1e-12)


def padded(tokens: list[Tensor], length: int, *, left: bool) -> tuple[Tensor, Tensor]:
    """Put rows of different length into one tensor; pads hold random ids."""
    out = torch.randint(V, (len(tokens), length))
    valid = torch.zeros(len(tokens), length, dtype=torch.bool)
    for row, line in enumerate(tokens):
        at = slice(length - len(line), length) if left else slice(0, len(line))
        out[row, at] = line
        valid[row, at] = True
    return out, valid


def real_outputs(lm: CausalLM | Encoder, tokens: list[Tensor], length: int, left: bool) -> Tensor:
    """Give the outputs of real tokens, row after row."""
    padded_tokens, valid = padded(tokens, length, left=left)
    return lm(padded_tokens, valid)[valid]


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "encoder"])
@pytest.mark.parametrize("placement", ["post", "pre", "normformer", "sub_ln", "residual"])
@pytest.mark.parametrize("norm", MASKED)
def test_padding_does_not_move_real_tokens(
    norm: str, placement: str, causal: bool, training: bool
) -> None:
    """Neither what pads hold, nor how many there are, nor on which side they stand."""
    lm = model(norm, placement, causal=causal).train(training)
    rows = [torch.randint(V, (length,)) for length in (6, 3, 1)]
    first = real_outputs(lm, rows, 6, left=False)
    for length, left in [(6, False), (12, False), (9, True)]:
        again = real_outputs(lm, rows, length, left)
        torch.testing.assert_close(again, first, rtol=0, atol=1e-11)


@pytest.mark.parametrize("extra", [0, 6], ids=["other pads", "more pads"])
@pytest.mark.parametrize("norm", ["masked_batch_norm", "batch_norm"])
def test_running_statistics_see_real_tokens_only(norm: str, extra: int) -> None:
    """One training step on the same lines: the masked norm ends the same, the naive does not."""
    rows = [torch.randint(V, (length,)) for length in (6, 2)]
    first, second = model(norm), model(norm)
    second.load_state_dict(first.state_dict())
    outputs = [real_outputs(first, rows, 6, False), real_outputs(second, rows, 6 + extra, False)]
    pairs = [*zip(first.buffers(), second.buffers(), strict=True), outputs]
    moved = max((a - b).abs().max().item() for a, b in pairs)
    assert moved < 1e-11 if norm == "masked_batch_norm" else moved > 1e-3


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "encoder"])
@pytest.mark.parametrize("norm", token_norms())
def test_row_of_pads_is_finite(norm: str, causal: bool) -> None:
    """A row without one real token: outputs and gradients are finite."""
    lm = model(norm, causal=causal)
    valid = torch.tensor([[True] * 4, [False] * 4])
    out = lm(torch.randint(V, (2, 4)), valid)
    out.square().mean().backward()
    assert out.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in lm.parameters())
