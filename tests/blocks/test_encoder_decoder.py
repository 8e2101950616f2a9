"""Two stacks: who reads whom, pads on either side, configurations of their own, errors."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from normkit.blocks import CrossAttention, EncoderDecoder, Memory, TransformerConfig
from normkit.errors import OptionError, ShapeError
from normkit.spec import PLACEMENTS

V = 11


def small(norm: str = "layer_norm", placement: str = "pre") -> EncoderDecoder:
    """Build a float64 model whose decoder is deeper and knows other tokens."""
    source, target = (
        TransformerConfig(
            vocabulary=vocabulary, width=8, heads=2, depth=depth, max_length=16,
            norm=norm, placement=placement,
        )
        for vocabulary, depth in ((V, 1), (V + 2, 2))
    )  # fmt: skip
    model = EncoderDecoder(source, target).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("branch_scale"):  # ReZero's 0 would hide every leak
                parameter.fill_(0.5)
    return model


def moved(model: EncoderDecoder, source_at: int | None, target_at: int | None) -> list[bool]:
    """Change one token: which target positions move?"""
    source, target = torch.randint(V, (2, 2, 5))
    other_source, other_target = source.clone(), target.clone()
    if source_at is not None:
        other_source[:, source_at] = (source[:, source_at] + 1) % V
    if target_at is not None:
        other_target[:, target_at] = (target[:, target_at] + 1) % V
    different = model(source, target) != model(other_source, other_target)
    return different.any(-1).any(0).tolist()


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_who_reads_whom(placement: str) -> None:
    """Every target token reads all of the source, and of the target nothing later."""
    model = small(placement=placement)
    assert moved(model, 0, None) == moved(model, 4, None) == [True] * 5
    assert moved(model, None, 0) == [True] * 5
    assert moved(model, None, 3) == [False] * 3 + [True] * 2


@settings(max_examples=20)
@given(
    source_row=st.lists(st.booleans(), min_size=1, max_size=7).filter(any),
    target_row=st.lists(st.booleans(), min_size=1, max_size=7).filter(any),
    placement=st.sampled_from(list(PLACEMENTS)),
)
def test_pads_are_as_if_they_were_not_there(
    source_row: list[bool], target_row: list[bool], placement: str
) -> None:
    """Wherever pads stand in source or target, real tokens get what they get without them."""
    model = small(placement=placement)
    source_valid, target_valid = torch.tensor([source_row]), torch.tensor([target_row])
    source = torch.randint(V, source_valid.shape)
    target = torch.randint(V, target_valid.shape)
    alone = model(source[source_valid][None], target[target_valid][None])[0]
    padded = model(source, target, source_valid, target_valid)[target_valid]
    torch.testing.assert_close(padded, alone, rtol=0, atol=1e-11)


def right_padded(rows: list[Tensor], length: int) -> tuple[Tensor, Tensor]:
    """Put rows into one tensor; pads hold random ids."""
    tokens = torch.randint(V, (len(rows), length))
    valid = torch.arange(length) < torch.tensor([[len(row)] for row in rows])
    tokens[valid] = torch.cat(rows)
    return tokens, valid


@pytest.mark.parametrize("placement", ["post", "sub_ln", "normformer", "residual"])
def test_masked_statistics_of_each_stack(placement: str) -> None:
    """With statistics over the batch too: neither side's pads move a real token, in training."""
    model = small("masked_batch_norm", placement)
    sources = [torch.randint(V, (length,)) for length in (4, 2, 1)]
    targets = [torch.randint(V, (length,)) for length in (2, 5, 3)]
    outs = []
    for more in (0, 3):
        source, source_valid = right_padded(sources, 4 + more)
        target, target_valid = right_padded(targets, 5 + more)
        outs.append(model(source, target, source_valid, target_valid)[target_valid])
    torch.testing.assert_close(*outs, rtol=0, atol=1e-11)


def test_source_without_a_real_token_is_read_as_zeros() -> None:
    """Whatever its pads hold: the output matrix's bias, finite gradients."""
    cross = CrossAttention(8, 2)
    encoded = torch.randn(2, 3, 8, requires_grad=True)
    memory = Memory(encoded, torch.tensor([[True, False, True], [False, False, False]]))
    y = cross(torch.randn(2, 4, 8), memory)
    torch.testing.assert_close(y[1], cross.output.bias.expand(4, 8))
    y.square().sum().backward()
    assert encoded.grad is not None
    assert encoded.grad.isfinite().all()
    assert encoded.grad[0, ::2].any(-1).all()
    assert not encoded.grad[0, 1].any()
    assert not encoded.grad[1].any()


def test_each_stack_has_its_own_configuration() -> None:
    """PowerNorm's paper keeps LayerNorm in the decoder; depths and placements may differ too."""
    encoder = TransformerConfig(vocabulary=5, width=8, heads=2, norm="rms_norm", placement="peri")
    decoder = TransformerConfig(vocabulary=6, width=8, heads=4, depth=3, placement="post")
    model = EncoderDecoder(encoder, decoder)
    out = model(torch.zeros(2, 3, dtype=torch.long), torch.full((2, 4), 5))
    assert out.shape == (2, 4, 6)
    assert (len(model.encoder.blocks), len(model.decoder.blocks)) == (2, 3)
    same = EncoderDecoder(encoder)
    assert same.decoder.config is same.encoder.config is encoder


def test_errors() -> None:
    """Widths that do not meet, batches that do not, and a stack's own sentence."""
    a, b = (TransformerConfig(vocabulary=5, width=width, heads=2) for width in (8, 16))
    text = (
        "EncoderDecoder: encoder and decoder must have one width;"
        " encoder.width is 8 and decoder.width is 16."
    )
    with pytest.raises(OptionError, match=f"^{re.escape(text)}$"):
        EncoderDecoder(a, b)
    text = (
        "EncoderDecoder: source and target must have as many rows;"
        " source is (2, 3) and target is (1, 3)."
    )
    tokens = torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(ShapeError, match=f"^{re.escape(text)}$"):
        EncoderDecoder(a)(tokens, tokens[:1])
    with pytest.raises(ShapeError, match=r"^Transformer: valid must have the shape of tokens; "):
        EncoderDecoder(a)(tokens, tokens, tokens[:, :2].bool())


def test_cross_attention_heads() -> None:
    """The class that was asked for is the one that speaks."""
    text = "CrossAttention: heads must divide width; width is 8 and heads is 3."
    with pytest.raises(OptionError, match=f"^{re.escape(text)}$"):
        CrossAttention(8, 3)
