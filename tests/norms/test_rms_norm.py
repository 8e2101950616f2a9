"""RMSNorm: the conventions that public code differs in, and the sentence for wrong input."""

from __future__ import annotations

import re

import pytest
import torch

import normkit
from normkit.errors import OptionError, ShapeError
from normkit.functional import rms_norm


def llama(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The formula of Llama's code: round to the dtype of x, then multiply."""
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def gemma(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The formula of Gemma's code: 1 + w, all in float32, round once."""
    wide = x.float()
    unit = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (unit * (1.0 + weight.float())).to(x.dtype)


def differing(a: torch.Tensor, b: torch.Tensor) -> float:
    """Share of elements that differ."""
    return (a != b).double().mean().item()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_rounding_as_llama_and_as_gemma(dtype: torch.dtype) -> None:
    # transformers#25421, TransformerEngine#1132, Liger-Kernel#950: a quarter of the elements differ
    # between the two; against the right one only where float32 itself rounds at a tie.
    x = torch.randn(64, 512).to(dtype)
    weight = (1 + 0.3 * torch.randn(512)).to(dtype)
    before = rms_norm(x, 512, weight, 1e-6, rounding="before_gain")
    once = rms_norm(x, 512, weight, 1e-6)
    assert differing(before, llama(x, weight, 1e-6)) < 1e-3
    assert differing(once, before) > 0.1
    centred = rms_norm(x, 512, weight - 1, 1e-6, zero_centred=True)
    assert differing(centred, gemma(x, weight - 1, 1e-6)) < 1e-3


def test_output_dtypes() -> None:
    x, weight = torch.randn(2, 8).bfloat16(), torch.randn(8)
    names = {"input": torch.bfloat16, "promoted": torch.float32, "weight": torch.float32}
    for name, dtype in names.items():
        layer = normkit.RMSNorm(8, output_dtype=name)  # type: ignore[arg-type]
        assert layer(x).dtype == dtype, name
        assert layer(x).sum().backward() is None
    assert rms_norm(x.float(), 8, weight.half(), output_dtype="weight").dtype == torch.float16
    assert rms_norm(x, 8, None, output_dtype="weight").dtype == torch.bfloat16
    promoted = rms_norm(x, 8, weight, 1e-6, rounding="before_gain", output_dtype="promoted")
    torch.testing.assert_close(promoted, llama(x, weight, 1e-6), rtol=0.01, atol=0)


def test_eps_none_computes_as_torch_and_stays_none() -> None:
    layer = normkit.RMSNorm(4)
    assert layer.eps is None
    assert "eps=None (computes with 1.19e-07, for float64 2.22e-16)" in repr(layer)
    assert "eps=1e-06" in repr(normkit.RMSNorm(4, eps=1e-6))
    x = torch.full((1, 4), 1e-4)
    for dtype, eps in ((torch.float32, 2.0**-23), (torch.float64, 2.0**-52)):
        want = x.double() / (1e-8 + eps) ** 0.5
        got = layer.to(dtype)(x.to(dtype)).double()
        torch.testing.assert_close(got, want, rtol=1e-6, atol=0)
        torch.testing.assert_close(torch.nn.RMSNorm(4, dtype=dtype)(x.to(dtype)).double(), got)


def test_authors_formula_is_eps_outside() -> None:
    # bzhangGo/rmsnorm: scale * x / (|x| / sqrt(d) + eps)
    x = 1e-2 * torch.randn(3, 16, dtype=torch.float64)
    want = x / (x.norm(dim=-1, keepdim=True) / 4 + 1e-3)
    torch.testing.assert_close(rms_norm(x, 16, eps=1e-3, eps_place="outside"), want)


def test_clamp_is_normalize_times_root_d() -> None:
    # x-transformers: F.normalize(x) * sqrt(d), whose clamp of |x| at e is one of rms at e / sqrt(d)
    x = torch.randn(3, 16, dtype=torch.float64)
    x[0] *= 1e-14
    want = torch.nn.functional.normalize(x, dim=-1, eps=1e-12) * 4
    got = rms_norm(x, 16, eps=1e-12 / 4, eps_place="clamp")
    torch.testing.assert_close(got, want, rtol=1e-12, atol=0)


def test_fraction_measures_the_first_features() -> None:
    x = torch.tensor([[3.0, 4.0, 100.0, -7.0]], dtype=torch.float64)
    got = rms_norm(x, 4, eps=0.0, fraction=0.5)
    torch.testing.assert_close(got, x / 12.5**0.5)
    assert torch.equal(rms_norm(x, 4, eps=0.0, fraction=0.6), got)  # int(2.4) is 2


def test_a_bias_is_added() -> None:
    layer = normkit.RMSNorm(2, bias=True, eps=0.0)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([1.0, 2.0]))
    want = torch.tensor([[3.0, 4.0]]) / 12.5**0.5 + torch.tensor([1.0, 2.0])
    torch.testing.assert_close(layer(torch.tensor([[3.0, 4.0]])), want)
    assert repr(layer).endswith("bias=True)")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: normkit.RMSNorm(8, fraction=0.0625),
            OptionError,
            "RMSNorm: fraction must measure at least one feature; 0.0625 of 8 features is none. "
            "Use at least 1/8.",
        ),
        (
            lambda: normkit.RMSNorm(8, fraction=1.5),
            OptionError,
            "RMSNorm: fraction must lie in (0, 1]; it is 1.5.",
        ),
        (
            lambda: normkit.RMSNorm(8, rounding="twice"),  # type: ignore[arg-type]
            OptionError,
            "RMSNorm: rounding must be 'once' or 'before_gain'; rounding is 'twice'.",
        ),
        (
            lambda: normkit.RMSNorm(8, output_dtype=torch.half),  # type: ignore[arg-type]
            OptionError,
            "RMSNorm: output_dtype must be 'input', 'promoted' or 'weight'; "
            "output_dtype is torch.float16.",
        ),
        (
            lambda: normkit.RMSNorm(256)(torch.ones(8, 512)),
            ShapeError,
            "rms_norm: the last axis of x must be 256; x is (8, 512). Try normalized_shape=512.",
        ),
    ],
)
def test_wrong_input_gets_a_sentence(call: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()  # type: ignore[operator]
