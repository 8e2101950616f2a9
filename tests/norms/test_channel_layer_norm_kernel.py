"""channel_layer_norm where the kernel works on tiles of positions: bound, order, layouts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from normkit.functional import channel_layer_norm
from normkit.measure import assert_within, input_gradient_scale, output_scale, sum_scale
from tests.norms.regimes import DTYPES, REGIMES, Regime
from tests.norms.truth import row_truth

# (B, C, positions): one vector and a tail, several slabs, more channels than are added at once.
SHAPES = [(2, 5, 11), (1, 1, 9), (1, 130, 8), (2, 33, 72), (1, 3, 300)]
OPTIONS: list[dict[str, Any]] = [
    {"eps": 1e-6},
    {"eps": 0.1, "eps_place": "outside"},
    {"eps": 0.8, "eps_place": "clamp"},
    {"eps": 1e-6, "zero_centred": True},
]


def planes(rows: Tensor, B: int, R: int) -> Tensor:
    """Rows of channels (B R, C) as (B, C, R), positions side by side."""
    return rows.reshape(B, R, rows.shape[-1]).movedim(-1, 1).contiguous()


def back(t: Tensor) -> Tensor:
    """Undo :func:`planes`."""
    return t.movedim(1, -1).reshape(-1, t.shape[1])


def run(x: Tensor, dy: Tensor, weight: Tensor, bias: Tensor, **options: Any) -> list[Tensor]:
    """y and the gradients of x, weight, bias."""
    leaves = [t.detach().requires_grad_() for t in (x, weight, bias)]
    y = channel_layer_norm(*leaves, **options)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


@pytest.mark.parametrize("regime", REGIMES.values(), ids=REGIMES.keys())
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_is_within_the_bound(options: dict[str, Any], dtype: torch.dtype, regime: Regime) -> None:
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    for B, C, R in SHAPES:
        x, dy = regime(B * R, C, dtype), torch.randn(B * R, C).to(dtype)
        weight, bias = (1 + 0.3 * torch.randn(2, C)).to(dtype)
        own = dict(options)
        gain = weight.double() + float(own.pop("zero_centred", False))
        truth = row_truth(x, dy, gain, bias, center=True, **own)
        y, dx, dweight, dbias = run(planes(x, B, R), planes(dy, B, R), weight, bias, **options)
        assert y.is_contiguous()
        assert dx.is_contiguous()
        outputs = output_scale(truth.x_hat, gain, bias.double())
        inputs = input_gradient_scale(truth.g, truth.x_hat, truth.inverse)
        row_terms = truth.bias_terms * truth.x_hat.abs().amax(-1, keepdim=True)
        for got, want, terms, scale, what in (
            (back(y), truth.y, C, outputs, "y"),
            (back(dx), truth.dx, C, inputs, "dx"),
            (dweight, truth.dweight, B * R * C, sum_scale(row_terms, axes=(0,)), "dw"),
            (dbias, truth.dbias, B * R, sum_scale(truth.bias_terms, axes=(0,)), "db"),
        ):
            assert_within(got, want, compute_dtype=compute, terms=terms, row_scale=scale, what=what)


def test_a_position_has_the_same_bits_wherever_it_stands() -> None:
    weight, bias = torch.randn(2, 6)
    x, dy = torch.randn(2, 1, 6, 300)
    y, dx, *_ = run(x, dy, weight, bias)
    for first in (1, 37, 270):
        part, part_dx, *_ = run(x[..., first:], dy[..., first:], weight, bias)
        assert torch.equal(part, y[..., first:])
        assert torch.equal(part_dx, dx[..., first:])


def test_threads_change_no_bit() -> None:
    x, dy = torch.randn(2, 3, 40, 700)
    weight, bias = torch.randn(2, 40)
    one = run(x, dy, weight, bias)
    torch.set_num_threads(3)
    for a, b in zip(run(x, dy, weight, bias), one, strict=True):
        assert torch.equal(a, b)


def test_samples_without_gradient_change_no_sum() -> None:
    x, dy = torch.randn(2, 3, 4, 500)
    weight, bias = torch.randn(2, 4)
    longer, longer_dy = torch.cat((x, torch.randn(2, 4, 500))), torch.cat((dy, dy[:2] * 0))
    want, got = run(x, dy, weight, bias), run(longer, longer_dy, weight, bias)
    for a, b in zip(got[2:], want[2:], strict=True):
        assert torch.equal(a, b)


def test_constant_positions_are_the_bias() -> None:
    x = torch.tensor([0.1, 1000.1, -3.3, 3e38]).repeat(3).expand(1, 7, 12).contiguous()
    weight, bias = torch.randn(2, 7)
    y = channel_layer_norm(x, weight, bias)
    assert torch.equal(y, bias[:, None].expand(1, 7, 12))


def test_one_huge_position_leaves_its_neighbours_alone() -> None:
    x, dy = torch.randn(2, 1, 5, 40)
    weight, bias = torch.randn(2, 5)
    want = run(x, dy, weight, bias)
    huge = x.clone()
    huge[..., 7] *= 1e30
    y, dx, dweight, _ = run(huge, dy, weight, bias)
    others = torch.arange(40) != 7
    assert torch.equal(y[..., others], want[0][..., others])
    assert torch.equal(dx[..., others], want[1][..., others])
    true_y, _, true_dweight, _ = run(huge, dy, weight, bias, impl="torch")
    torch.testing.assert_close(y, true_y)
    torch.testing.assert_close(dweight, true_dweight)


@pytest.mark.parametrize("needed", range(1, 8))
def test_every_selection_of_gradients(needed: int) -> None:
    x, dy = torch.randn(2, 2, 6, 45)
    tensors = (x, *torch.randn(2, 6))
    whole = run(x, dy, *tensors[1:])
    leaves = [t.clone().requires_grad_(bool(needed >> i & 1)) for i, t in enumerate(tensors)]
    wanted = [t for t in leaves if t.requires_grad]
    found = iter(torch.autograd.grad(channel_layer_norm(*leaves), wanted, dy))
    for leaf, want in zip(leaves, whole[1:], strict=True):
        if leaf.requires_grad:
            assert torch.equal(next(found), want)


def test_layouts_of_x_and_its_gradient() -> None:
    image, dy = torch.randn(2, 2, 5, 6, 7)
    weight, bias = torch.randn(2, 5)
    want = run(image, dy, weight, bias)
    last = torch.channels_last
    wide = torch.randn(2, 9, 6, 7)
    wide[:, 2:7] = image
    for x in (image, wide[:, 2:7], image.contiguous(memory_format=last), image.mT.contiguous().mT):
        for g in (dy, dy.contiguous(memory_format=last), dy.mT.contiguous().mT):
            for a, b in zip(run(x, g, weight, bias), want, strict=True):
                torch.testing.assert_close(a, b)
    same = dy[:1, :1, :1, :1].expand(dy.shape)
    for a, b in zip(
        run(image, same, weight, bias), run(image, same.clone(), weight, bias), strict=True
    ):
        assert torch.equal(a, b)


def test_float32_parameters_beside_a_half_image() -> None:
    x, dy = torch.randn(2, 2, 5, 20).bfloat16()
    weight, bias = torch.randn(2, 5)
    y, dx, dweight, dbias = run(x, dy, weight, bias)
    assert (y.dtype, dx.dtype, dweight.dtype, dbias.dtype) == (
        *(torch.bfloat16,) * 2,
        *(torch.float32,) * 2,
    )
    want = run(x.double(), dy.double(), weight.double(), bias.double())
    for got, true in zip((y, dx), want[:2], strict=True):
        torch.testing.assert_close(got, true.bfloat16())
    for got, true in zip((dweight, dbias), want[2:], strict=True):
        torch.testing.assert_close(got, true.float())
