"""GroupNorm: groups, masks, memory formats, the public reports, the bound in every regime."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import normkit
from normkit.errors import DtypeError, OptionError, ShapeError
from normkit.functional import group_norm, instance_norm, layer_norm
from normkit.measure import (
    Margin,
    assert_within,
    input_gradient_scale,
    output_scale,
    sum_scale,
)
from tests.norms.regimes import DTYPES, REGIMES, Regime
from tests.norms.truth import Truth, row_truth

SHAPES = [(2, 2, 3, 5), (1, 3, 1, 33), (1, 2, 4, 640), (2, 1, 2, 1)]  # B, G, K, R
DENSE = {n: r for n, r in REGIMES.items() if n not in ("strided", "transposed", "expanded")}

# Every layer of the family that takes images or volumes, over 4 channels, by their spatial axes.
IMAGES: dict[str, Callable[[int], Any]] = {
    "GroupNorm": lambda _: normkit.GroupNorm(2, 4),
    "InstanceNorm": lambda axes: getattr(normkit, f"InstanceNorm{axes}d")(4, affine=True),
    "ChannelLayerNorm": lambda _: normkit.ChannelLayerNorm(4),
}
every_image_norm = pytest.mark.parametrize("name", IMAGES)


@pytest.mark.parametrize("regime", DENSE.values(), ids=DENSE.keys())
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize("impl", ["auto", "torch"])
def test_bounds(impl: str, masked: bool, dtype: torch.dtype, regime: Regime) -> None:
    for shape in SHAPES:
        margins(shape, masked=masked, dtype=dtype, regime=regime, impl=impl)


def test_the_bound_bites() -> None:
    shape, unit = (8, 2, 4, 257), REGIMES["unit"]
    found = margins(shape, masked=True, dtype=torch.float32, regime=unit, impl="torch")
    assert all(m.bites for m in found), [m.ratio for m in found]


def margins(
    shape: tuple[int, int, int, int],
    *,
    masked: bool,
    dtype: torch.dtype,
    regime: Regime,
    impl: str,
) -> list[Margin]:
    """Hold y, dx, dweight and dbias to the truth: a group of a sample is a row.

    The torch operations compute in float64, a compiled kernel in float32 unless x is float64.
    """
    in_float64 = impl == "torch" or dtype == torch.float64
    compute = torch.float64 if in_float64 else torch.float32
    B, G, K, R = shape
    rows, n = B * G, K * R
    x_MN, dy_MN = regime(rows, n, dtype), torch.randn(rows, n, dtype=torch.float64).to(dtype)
    weight, bias = (1 + 0.3 * torch.randn(2, G * K, dtype=torch.float64)).to(dtype)
    valid = torch.rand(R) < 0.7 if masked else None
    gain, shift = (
        t.double().reshape(1, G, K, 1).expand(B, G, K, R).reshape(rows, n) for t in (weight, bias)
    )
    measured = None if valid is None else valid.repeat(K)
    truth = row_truth(
        x_MN, dy_MN, gain, shift, center=True, eps=1e-5, measured=measured, zero_unmeasured=masked
    )
    image = (B, G * K, R)
    y, dx, *gradients = results(
        lambda x, w, b: group_norm(x, G, w, b, valid=valid, impl=impl),
        (x_MN.reshape(image), weight, bias),
        dy_MN.reshape(image),
    )
    outputs = output_scale(truth.x_hat, gain, shift)
    inputs = input_gradient_scale(truth.g, truth.x_hat, truth.inverse)
    by_row: dict[str, Any] = {"compute_dtype": compute, "terms": n}
    return [
        assert_within(y.reshape(rows, n), truth.y, row_scale=outputs, **by_row),
        assert_within(dx.reshape(rows, n), truth.dx, row_scale=inputs, what="dx", **by_row),
        *parameter_margins(gradients, truth, shape, compute),
    ]


def parameter_margins(
    gradients: list[Tensor],
    truth: Truth,
    shape: tuple[int, int, int, int],
    compute: torch.dtype,
) -> list[Margin]:
    """Hold dweight and dbias to the sums of their terms over samples and positions."""
    B, G, K, R = shape

    def by_channel(t: Tensor) -> Tensor:
        return t.reshape(B, G, K, R).movedim(0, 2).reshape(G * K, B * R)

    # A term dy * x_hat carries the error of x_hat, which is one of its row.
    wide = truth.bias_terms * truth.x_hat.abs().amax(-1, keepdim=True)
    return [
        assert_within(
            got,
            by_channel(terms).sum(1),
            compute_dtype=compute,
            terms=truth.y.numel(),
            row_scale=sum_scale(by_channel(size), axes=(1,)),
            what=what,
        )
        for what, got, terms, size in (
            ("dweight", gradients[0], truth.weight_terms, wide),
            ("dbias", gradients[1], truth.bias_terms, truth.bias_terms),
        )
    ]


def results(f: Callable[..., Tensor], tensors: tuple[Tensor, ...], dy: Tensor) -> list[Tensor]:
    """y and the gradients of all tensors."""
    leaves = [t.detach().requires_grad_() for t in tensors]
    y = f(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, dy)]


def test_groups_are_neighbours_by_number() -> None:
    x = torch.tensor([[[1.0], [3.0], [10.0], [30.0]]], dtype=torch.float64)
    weight, bias = torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([0.0, 0.0, 0.5, 0.5])
    # means 2 and 20, variances 1 and 100; eps 3 and then 44 make the divisors 2 and 12
    got = group_norm(x, 2, weight.double(), bias.double(), 3.0)
    torch.testing.assert_close(got.flatten()[:2].tolist(), [-0.5, 1.0])
    got = group_norm(x, 2, weight.double(), bias.double(), 44.0)
    torch.testing.assert_close(got.flatten()[2:].tolist(), [-30 / 12 + 0.5, 40 / 12 + 0.5])


@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 5), (2, 6, 3, 2), (2, 6, 1, 2, 3), (1, 6, 0)])
def test_one_group_is_layer_norm_and_c_groups_instance_norm(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, dtype=torch.float64)
    if x.numel():
        whole = layer_norm(x.flatten(1), x[0].numel(), impl="torch").reshape(shape)
        assert torch.equal(group_norm(x, 1, impl="torch"), whole)
        torch.testing.assert_close(group_norm(x, 1), whole, rtol=1e-13, atol=1e-13)
    assert torch.equal(group_norm(x, 6), instance_norm(x).y)


def test_a_sample_does_not_depend_on_the_batch() -> None:
    x, layer = torch.randn(40, 6, 77), normkit.GroupNorm(3, 6)
    y = layer(x)
    for i in (0, 17, 39):
        assert torch.equal(layer(x[i : i + 1])[0], y[i])
    assert torch.equal(layer.eval()(x), y)


def test_no_running_statistics_and_an_optional_bias() -> None:
    assert list(normkit.GroupNorm(2, 4).state_dict()) == ["weight", "bias"]
    plain = normkit.GroupNorm(2, 4, affine=False)
    assert plain.weight is None
    assert plain.bias is None
    assert normkit.GroupNorm(2, 4, bias=False).bias is None


def channels_last(x: Tensor) -> Tensor:
    """The same values with the channels innermost in memory."""
    layout = torch.channels_last if x.dim() == 4 else torch.channels_last_3d
    return x.contiguous(memory_format=layout)


def run(layer: nn.Module, x: Tensor, dy: Tensor, *mask: Tensor) -> list[Tensor]:
    """y, dx and the parameters' gradients."""
    f = partial(torch.func.functional_call, layer)
    names = [name for name, _ in layer.named_parameters()]
    return results(
        lambda x, *values: f(dict(zip(names, values, strict=True)), (x, *mask)),
        (x, *layer.parameters()),
        dy,
    )


def same(name: str, first: list[Tensor], second: list[Tensor]) -> None:
    """Bits; closeness where a kernel for each format adds over the channels in its own order."""
    for a, b in zip(first, second, strict=True):
        if name == "ChannelLayerNorm":
            torch.testing.assert_close(a, b, rtol=1e-5, atol=2e-5)
        else:
            assert torch.equal(a, b)


@every_image_norm
@given(space=st.lists(st.integers(1, 5), min_size=2, max_size=3), mean=st.sampled_from([0, 1000]))
def test_memory_formats_give_the_same(name: str, space: list[int], mean: float) -> None:
    # At mean 1000 torch's GroupNorm is off by 2.1 with channels_last, its gradients by 0.4 and 2.
    space[0] += 1  # one position has both formats at once
    layer = IMAGES[name](len(space))
    x, dy = torch.randn(2, 2, 4, *space)
    first = run(layer, mean + x, dy)
    second = run(layer, channels_last(mean + x), channels_last(dy))
    same(name, first, second)
    assert second[0].stride() == channels_last(x).stride()


@pytest.mark.parametrize("mean", [100.0, 1e3, 1e4])
def test_channels_last_far_from_zero_is_right(mean: float) -> None:
    # The mechanism of PaddlePaddle/Paddle#16654 and google/flax#1491: E[x^2] - E[x]^2.
    x = channels_last(mean + torch.randn(2, 8, 5, 5))
    torch.testing.assert_close(group_norm(x, 2), group_norm(x.double(), 2).float())
    want = nn.functional.group_norm(x.double().contiguous(), 2)
    torch.testing.assert_close(group_norm(x.double(), 2), want, rtol=1e-8, atol=1e-8)


@every_image_norm
@pytest.mark.parametrize("value", [0.1, 14.0, 1000.1, 1e6 + 0.3])
def test_constant_input_gives_exactly_the_bias(name: str, value: float) -> None:
    # pytorch#108072, pytorch#94288, onnxruntime#21935; torch's channels_last is off by up to 11.
    layer = IMAGES[name](2)
    with torch.no_grad():
        layer.weight.fill_(1e18)
        layer.bias.copy_(torch.arange(4))
    want = torch.arange(4.0)[None, :, None, None].expand(2, 4, 3, 5)
    x = torch.full((2, 4, 3, 5), value)
    assert torch.equal(layer(x), want)
    assert torch.equal(layer(channels_last(x)), want)


@every_image_norm
def test_channels_last_input_without_gradient(name: str) -> None:
    # torch's GroupNorm ends the process here.
    layer, x = IMAGES[name](2), torch.randn(2, 4, 3, 5)
    found = []
    for image in (x, channels_last(x)):
        layer.zero_grad()
        layer(image).square().sum().backward()
        found.append([p.grad.clone() for p in layer.parameters()])
    same(name, *found)
    assert all(a.abs().sum() > 0 for a in found[0])


@every_image_norm
@pytest.mark.parametrize(
    ("dtype", "size"),
    [(torch.float16, 6e4), (torch.bfloat16, 1e38), (torch.float32, 1e38), (torch.float64, 1e307)],
    ids=str,
)
def test_huge_values_stay_finite(name: str, dtype: torch.dtype, size: float) -> None:
    # pytorch#162489, facebookresearch/ConvNeXt#80: squares overflow though the result is small.
    layer = IMAGES[name](2).to(dtype)
    x = (2 * torch.rand(2, 4, 3, 5, dtype=torch.float64) - 1).to(dtype)
    y, *gradients = run(layer, x * size, torch.randn_like(x))
    assert all(g.isfinite().all() for g in gradients)
    torch.testing.assert_close(y, layer(x), rtol=2e-2, atol=2e-2)  # eps aside the same


@given(
    mask=st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=3),
    groups=st.sampled_from([1, 2, 4]),
)
def test_masked_equals_the_gathered_computation(mask: list[list[bool]], groups: int) -> None:
    """Per sample, the real positions cut out and normalised by the layer without a mask."""
    valid = torch.tensor(mask)
    layer = normkit.GroupNorm(groups, 4, dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += torch.randn(4)
    x, dy = torch.randn(2, len(mask), 4, 6, dtype=torch.float64)
    seen = valid[:, None]
    y, dx, *gradients = run(
        layer,
        torch.where(seen, x, torch.nan).unflatten(2, (2, 3)),
        torch.where(seen, dy, torch.nan).unflatten(2, (2, 3)),
        valid.unflatten(1, (2, 3)),
    )
    sums = [torch.zeros(4, dtype=torch.float64) for _ in gradients]
    for i, real in enumerate(valid):
        want = run(layer, x[i : i + 1, :, real], dy[i : i + 1, :, real])
        for got, part in zip((y, dx), want[:2], strict=True):
            torch.testing.assert_close(
                got.flatten(2)[i : i + 1, :, real], part, rtol=1e-9, atol=1e-9
            )
            assert got.flatten(2)[i, :, ~real].abs().sum() == 0
        sums = [s + g for s, g in zip(sums, want[2:], strict=True)]
    for a, b in zip(gradients, sums, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("eps", [1e-5, 0.0])
def test_a_sample_without_a_real_position_gives_zeros(eps: float) -> None:
    valid = torch.tensor([[False] * 3, [True] * 3])
    x = torch.where(valid[:, None], torch.randn(2, 4, 3), torch.nan)
    layer = normkit.GroupNorm(2, 4, eps)
    nn.init.ones_(layer.bias)
    y, dx, *gradients = run(layer, x, torch.randn(2, 4, 3), valid)
    assert y[0].abs().sum() == 0
    assert dx[0].abs().sum() == 0
    assert y[1].abs().sum() > 0
    assert all(g.isfinite().all() for g in gradients)


def test_huge_padding_changes_nothing() -> None:
    valid = torch.tensor([[True, True, False]])
    x = torch.randn(1, 2, 3, dtype=torch.float64)
    for padding in (1e300, torch.inf, torch.nan):
        y = group_norm(torch.where(valid[:, None], x, padding), 1, valid=valid)
        torch.testing.assert_close(y[..., :2], group_norm(x[..., :2], 1), rtol=1e-12, atol=1e-12)


def test_more_padding_moves_the_layer_of_torch_but_not_ours() -> None:
    # pytorch#81985, pytorch/audio#4205: a Conformer's output depends on how its batch is padded.
    x, valid = torch.randn(2, 4, 6), torch.arange(6) < torch.tensor([[6], [4]])
    longer, mask = nn.functional.pad(x, (0, 7)), nn.functional.pad(valid, (0, 7))
    theirs, ours = nn.GroupNorm(1, 4), normkit.GroupNorm(1, 4)
    assert (theirs(x) - theirs(longer)[..., :6]).abs().max() > 0.3
    torch.testing.assert_close(ours(longer, mask)[..., :6], ours(x, valid), rtol=1e-6, atol=1e-6)


def test_takes_the_mask_of_the_block_around() -> None:
    x, valid = torch.randn(2, 4, 5), torch.arange(5) < torch.tensor([[5], [3]])
    layer = normkit.GroupNorm(2, 4)
    with normkit.valid(valid):
        assert torch.equal(nn.Sequential(nn.Identity(), layer)(x), layer(x, valid))
        assert torch.equal(layer(x, torch.ones(5).bool()), layer(x, torch.ones(2, 5).bool()))
    assert not torch.equal(layer(x), layer(x, valid))


def test_leaks_the_future() -> None:
    # espnet#5900, Wan-Video/Wan2.1#294: statistics over time see later frames.
    x = torch.randn(1, 8, 10)
    later = x.clone()
    later[..., -1] += 5
    for leaks, f in (
        (True, normkit.GroupNorm(1, 8)),
        (True, normkit.InstanceNorm1d(8)),
        (False, normkit.ChannelLayerNorm(8)),
    ):
        moved = (f(x) - f(later))[..., :-1].abs().max()
        assert moved > 0.1 if leaks else moved == 0


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: normkit.GroupNorm(3, 8),
            OptionError,
            "GroupNorm: num_groups must divide the 8 channels; it is 3. Try num_groups=2.",
        ),
        (
            lambda: normkit.GroupNorm(0, 8),
            OptionError,
            "GroupNorm: num_groups must be an integer of at least 1; it is 0.",
        ),
        (
            lambda: normkit.GroupNorm(2, 8)(torch.ones(2, 5, 8)),
            ShapeError,
            "GroupNorm: axis 1 of x must hold the 8 channels; x is (2, 5, 8). "
            "Try x.movedim(-1, 1).",
        ),
        (
            lambda: group_norm(torch.ones(8), 2),
            ShapeError,
            "group_norm: x must be (B, C, *); x is (8,).",
        ),
        (
            lambda: group_norm(torch.ones(2, 8, dtype=torch.int64), 2),
            DtypeError,
            "group_norm: x must be a floating-point tensor; x is torch.int64. Try x.float().",
        ),
        (
            lambda: group_norm(torch.ones(2, 8), 2, torch.ones(4)),
            ShapeError,
            "group_norm: weight must have one value per channel, (8,); it is (4,). x is (B, C, *).",
        ),
        (
            lambda: group_norm(torch.ones(2, 8, 3), 2, valid=torch.ones(2, 8).bool()),
            ShapeError,
            "group_norm: valid must be broadcastable to x without its channel axis, (2, 3); "
            "it is (2, 8).",
        ),
        (
            lambda: group_norm(torch.ones(2, 8, 3), 2, eps=-1.0),
            OptionError,
            "group_norm: eps must be finite and at least 0; it is -1.0.",
        ),
    ],
)
def test_wrong_input_gets_a_sentence(call: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()  # type: ignore[operator]
