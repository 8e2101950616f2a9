"""Attention: who reads whom, and rows in which nothing may be read."""

from __future__ import annotations

import dataclasses
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from normkit import QKNorm
from normkit.blocks import (
    CrossAttention,
    EncoderDecoder,
    Memory,
    SelfAttention,
    TransformerConfig,
    readable,
)
from normkit.errors import OptionError


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.booleans())
def test_readable(row: list[bool], causal: bool) -> None:
    """Each pair against the rule, written as a sentence."""
    mask = readable(torch.tensor([row]), causal=causal)
    assert mask is not None
    assert mask.shape == (1, 1, len(row), len(row))
    for query in range(len(row)):
        for key in range(len(row)):
            want = key == query or (row[key] and (key < query or not causal))
            assert mask[0, 0, query, key].item() == want


def test_no_mask_needs_none() -> None:
    """Without pads attention runs on its causal flag."""
    assert readable(None, causal=True) is None


@pytest.mark.parametrize("causal", [True, False])
def test_flag_and_mask_agree(causal: bool) -> None:
    """A mask that hides nothing gives what no mask gives."""
    attention = SelfAttention(8, 2, causal=causal).double()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    everything = readable(torch.ones(2, 5, dtype=torch.bool), causal=causal)
    torch.testing.assert_close(attention(x), attention(x, everything), rtol=0, atol=1e-14)


@pytest.mark.parametrize("causal", [True, False])
def test_row_without_real_key(causal: bool) -> None:
    """Every key is a pad: no NaN, neither forward nor backward."""
    attention = SelfAttention(8, 2, causal=causal)
    x = torch.randn(2, 4, 8, requires_grad=True)
    valid = torch.tensor([[True, True, False, False], [False, False, False, False]])
    y = attention(x, readable(valid, causal=causal))
    y.square().sum().backward()
    assert y.isfinite().all()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in attention.parameters())


def test_attends_evenly_where_keys_are_equal() -> None:
    """With keys 0 the output is the mean of the values of the real tokens up to the query."""
    attention = SelfAttention(4, 2, causal=True)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.zero_()
        attention.qkv.weight[8:] = torch.eye(4)
        attention.output.weight.copy_(torch.eye(4))
    x = torch.tensor([[1.0, 2.0, 30.0, 6.0]])[..., None].expand(1, 4, 4)
    valid = torch.tensor([[True, True, False, True]])
    y = attention(x, readable(valid, causal=True))[0, :, 0].tolist()
    assert y == pytest.approx([1.0, 1.5, 11.0, 3.0])  # the pad reads itself too


def test_heads_must_divide_width() -> None:
    """One sentence."""
    text = "SelfAttention: heads must divide width; width is 8 and heads is 3."
    with pytest.raises(OptionError, match=f"^{re.escape(text)}$"):
        SelfAttention(8, 3, causal=True)


@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
def test_qk_norm(cross: bool) -> None:
    """Queries and keys of each head divided by their root mean square, times gains of their own."""
    kind = CrossAttention(8, 2, qk_norm=True) if cross else None
    module = kind or SelfAttention(8, 2, causal=False, qk_norm=True)
    module.double()
    norm = module.qk_norm
    assert norm is not None
    with torch.no_grad():
        for gain in norm.parameters():
            gain.copy_(torch.rand(4) + 0.5)
    x, source = torch.randn(2, 2, 3, 8, dtype=torch.float64)
    if isinstance(module, CrossAttention):
        q, (k, v) = module.query(x), module.key_value(source).chunk(2, -1)
        got = module(x, Memory(source))
    else:
        q, k, v = module.qkv(x).chunk(3, -1)
        got = module(x)
    heads = []
    for at in (slice(4), slice(4, 8)):
        pair = []
        for vector, gain in ((q[..., at], norm.q_weight), (k[..., at], norm.k_weight)):
            root = (vector.square().mean(-1, keepdim=True) + 1e-6).sqrt()
            pair.append(vector / root * gain)
        heads.append((pair[0] @ pair[1].mT / 2).softmax(-1) @ v[..., at])
    torch.testing.assert_close(got, module.output(torch.cat(heads, -1)), rtol=1e-11, atol=1e-12)


def test_qk_norm_reaches_every_attention() -> None:
    """One for each attention of either stack; none without the option."""
    sizes = TransformerConfig(vocabulary=5, width=8, heads=2, depth=2)
    for wanted, config in ((0, sizes), (2 + 2 * 2, dataclasses.replace(sizes, qk_norm=True))):
        modules = EncoderDecoder(config).modules()
        assert sum(isinstance(module, QKNorm) for module in modules) == wanted
