"""Public reports of wrong numbers in norm kernels: each is a test here, with its own numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from normkit import functional
from tests.norms.row_norms import (
    BATCH,
    HALVES,
    RMS,
    RowNorm,
    centring_norm,
    check,
    check_output,
    every_half,
    every_row_norm,
)


@centring_norm
@pytest.mark.parametrize("mean", [1e3, 1e4, 1e5, 1e6, -1e6])
def test_a_mean_far_above_the_spread(norm: RowNorm, mean: float) -> None:
    # pytorch#51102, #81090, mlx#2238, burn#5607: E[x^2] - E[x]^2 gave variances of 0.05 or 48000
    # instead of 1; a mean rounded to float32 still costs 0.03, and 2e-7 is right.
    for width in (4, 768):
        x = (mean + torch.randn(8, width, dtype=torch.float64)).float()
        check(norm, x, torch.randn(8, width))


@centring_norm
@pytest.mark.parametrize("dtype", [*HALVES, torch.float32, torch.float64], ids=str)
def test_a_constant_row_gives_exactly_the_bias(norm: RowNorm, dtype: torch.dtype) -> None:
    # pytorch#108072, #94288, #98075, #108956, onnxruntime#21935: x * rstd - mean * rstd leaves a
    # residue of 1e-4 at 14, or NaN at 1234, which a large gain makes visible.
    largest = torch.finfo(dtype).max
    for value in (0.1, 3.3, 14.0, 1000.1, 1234.0, 1e6 + 0.3):
        for width in (2, 3, 7, 8, 17, 100, 768, 1000):
            x = torch.full((2, width), min(value, largest), dtype=dtype)
            weight = norm.ones(x) * min(1e18, largest)
            bias = torch.arange(len(weight)).to(dtype)
            y = norm(x, weight, bias)
            want = bias[:, None] if norm is BATCH else bias
            assert torch.equal(y, want.expand(2, width)), (value, width)


def checkerboard(rows: int, width: int) -> Tensor:
    """Rows and columns of 1, -1, 1, ...: mean 0, variance 1 either way."""
    return 1.0 - 2.0 * ((torch.arange(rows)[:, None] + torch.arange(width)) % 2)


@every_row_norm
@every_half
@pytest.mark.parametrize("parameters", ["float32", "half"])
@pytest.mark.parametrize("threads", [1, 2])
def test_parameter_gradients_do_not_stop_growing(
    norm: RowNorm, dtype: torch.dtype, parameters: str, threads: int
) -> None:
    # The family of pytorch#68048, #92164, Liger-Kernel#950, helion#2273: a bfloat16 sum of ones
    # stops at 256, a float16 one at 2048, one per thread. 20000 rows give 20000.
    torch.set_num_threads(threads)
    x = checkerboard(20000, 8)
    x = (x.T if norm is BATCH else x).to(dtype)
    weight = norm.ones(x, torch.float32 if parameters == "float32" else dtype)
    _, _, _, dbias = check(norm, x, torch.ones_like(x), weight, eps=1e-12)
    _, _, dweight, _ = check(norm, x, x, weight, eps=1e-12)
    wanted = torch.full((8,), 20000.0, dtype=weight.dtype)
    assert torch.equal(dbias, wanted)
    assert torch.equal(dweight, wanted)


@every_row_norm
@every_half
def test_parameter_gradients_of_a_mean_loss_and_of_one_sign(
    norm: RowNorm, dtype: torch.dtype
) -> None:
    # The same family: 4096 rows of 1/4096 came to 0.125 instead of 1, |randn| to half of its sum.
    x = torch.randn(8, 4096) if norm is BATCH else torch.randn(4096, 8)
    weight = norm.ones(x, torch.float32)
    mean = torch.full_like(x, 1 / 4096, dtype=dtype)
    _, _, _, dbias = check(norm, x.to(dtype), mean, weight)
    assert torch.equal(dbias, torch.ones(8))
    for dy in (torch.randn_like(x).abs(), torch.randn_like(x) + 0.1):
        check(norm, x.to(dtype), dy.to(dtype), weight)


@every_row_norm
@every_half
def test_rows_of_zeros_with_an_eps_below_half_precision(norm: RowNorm, dtype: torch.dtype) -> None:
    # pytorch#41527, #86580, wenet#907, DeepSpeed#581, tensorflow#24979: 1e-12 is 0 in float16, and
    # 1 / sqrt(1e-12) is inf; rows of padding then made every gradient NaN.
    zeros = torch.zeros(2, 10, dtype=dtype)
    y, *_ = check(norm, zeros, (0.01 * torch.randn(2, 10)).to(dtype), eps=1e-12)
    assert torch.equal(y, zeros)
    if norm.center:
        _, dx, *_ = check(norm, zeros, torch.ones_like(zeros), eps=1e-12)
        assert torch.equal(dx, zeros)


@every_row_norm
@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        (torch.float16, 3e4),
        (torch.bfloat16, 1e20),
        (torch.bfloat16, 1e38),
        (torch.float32, 1e30),
        (torch.float32, 1.5e38),
        (torch.float64, 1e200),
    ],
    ids=str,
)
def test_squares_that_overflow(norm: RowNorm, dtype: torch.dtype, size: float) -> None:
    # pytorch#162489, #178123, #133085, ConvNeXt#80, onnxruntime#29034: NaN, or all zeros.
    x = size * torch.tensor([[1.0, -1.0, 2.0, 0.0]], dtype=torch.float64)
    y, *_ = check(norm, x.to(dtype), torch.tensor([[0.3, -1.0, 0.5, 2.0]], dtype=dtype))
    wanted = [0.4472, -1.3416, 1.3416, -0.4472] if norm.center else [0.8165, -0.8165, 1.6330, 0.0]
    assert y[0].tolist() == pytest.approx(wanted, abs=5e-5 + 2 * torch.finfo(dtype).eps)


@every_row_norm
@pytest.mark.parametrize("size", [300.0, 5000.0])
def test_float16_values_above_256(norm: RowNorm, size: float) -> None:
    # ConvNeXt#80, EasyLM#50, pytorch#66707, nntrainer#3785: squared in float16, 300 is inf.
    def squared_in_half(x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    x = torch.full((1, 8), size).half()
    assert torch.equal(squared_in_half(x), torch.zeros_like(x))
    assert torch.equal(RMS(x, eps=1e-6), torch.ones_like(x))
    x = (size * torch.randn(3, 48)).half()
    check(norm, x, torch.randn(3, 48).half(), eps=1e-6)


def test_default_eps_of_rms_norm_is_that_of_float32() -> None:
    # pytorch#155527, #173039, #189581: not the eps of bfloat16, 7.8e-3, as was once documented.
    x = (0.058 * torch.randn(8, 32)).bfloat16()
    y = functional.rms_norm(x, 32)
    check_output(RMS, y, x, eps=2.0**-23)
    wrong = RMS.truth(x, x, eps=torch.finfo(torch.bfloat16).eps).y
    assert (y.double() - wrong).abs().max() > 0.5
    x64 = (0.01 * torch.randn(8, 32)).double()
    check_output(RMS, functional.rms_norm(x64, 32), x64, eps=2.0**-52)
    assert functional.default_eps(torch.float16) == torch.finfo(torch.float32).eps


@every_row_norm
def test_gains_of_zero_and_gains_far_below_the_bias(norm: RowNorm) -> None:
    # apex#1715, Megatron-LM#593: recovering x_hat as (y - bias) / weight gives NaN at a gain of 0
    # and loses all digits where the bias is 3000 times the gain.
    x, dy = torch.randn(2, 4, 4)
    weight = torch.tensor([1.0, 0.0, 1e-8, 2.0])
    _, _, dweight, _ = check(norm, x, dy, weight, torch.randn(4))
    assert dweight[1] != 0
    x, dy = torch.randn(2, 4, 48).bfloat16()
    small = 1e-3 * norm.ones(x)
    check(norm, x, dy, small, torch.full_like(small, 3.0))


LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "transposed": lambda: torch.randn(8, 6).t(),
    "every second column": lambda: torch.randn(6, 16)[:, ::2],
    "one row": lambda: torch.randn(1, 8).expand(6, 8),
    "one column": lambda: torch.randn(6, 1).expand(6, 8),
    "one number": lambda: torch.randn(1, 1).expand(6, 8),
    "every second row": lambda: torch.randn(12, 8)[::2],
    "inside a larger one": lambda: torch.randn(9, 11)[2:8, 1:9],
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())


@every_row_norm
@every_layout
def test_layouts_of_the_incoming_gradient_and_of_x(
    norm: RowNorm, layout: Callable[[], Tensor]
) -> None:
    # FlagGems#1082, unsloth#10617, #10675, flash-attention#355: dy read as if it were contiguous.
    weight, bias = torch.randn(2, len(norm.ones(torch.empty(6, 8))))
    check(norm, torch.randn(6, 8), layout(), weight, bias)
    check(norm, layout(), torch.randn(6, 8), weight, bias)


@every_row_norm
@pytest.mark.parametrize("width", [1, 3, 5, 31, 48, 100, 257, 1000, 1025, 5000])
def test_widths_that_are_no_power_of_two(norm: RowNorm, width: int) -> None:
    # unsloth#1867, FlagGems#4984, xformers#785: padded lanes entered the variance as -mean.
    check(norm, 3 + torch.randn(4, width), torch.randn(4, width))


@every_row_norm
def test_the_last_of_more_than_65536_rows(norm: RowNorm) -> None:
    # Liger-Kernel#1483, #804, apex#411, pytorch#184826, PaddleAPITest#504: a grid of 65535, or
    # offsets that wrap, left the tail rows out.
    x = torch.randn(70001, 3)
    dy = torch.zeros_like(x)
    dy[-1] = torch.randn(3)
    y, dx, dweight, _ = check(norm, x, dy)
    alone = check(norm, x[-1:], dy[-1:])
    assert torch.equal(y[-1:], alone[0])
    assert torch.equal(dx[-1:], alone[1])
    if norm is not BATCH:
        torch.testing.assert_close(dweight, alone[2], rtol=2.0**-23, atol=0)
    long = torch.randn(2, 70001)
    check(norm, long, torch.randn(2, 70001))


@every_row_norm
@pytest.mark.parametrize("rows", [1, 2, 31, 33, 47, 49, 75600 % 4096])
def test_rows_that_do_not_fill_a_block(norm: RowNorm, rows: int) -> None:
    # Sparse-VideoGen#74, TurboDiffusion#103, vllm-ascend#5012: the last program ran past the end,
    # or rows over the grid were never visited.
    sentinel = torch.full((2, rows + 64, 96), 7.0)
    memory = sentinel.clone()
    memory[:, :rows] = torch.randn(2, rows, 96)
    before = memory.clone()
    x, dy = memory[0, :rows], memory[1, :rows]
    y, dx, *_ = check(norm, x, dy)
    assert torch.equal(memory, before)
    for i in {0, rows // 2, rows - 1}:
        alone = check(norm, x[i : i + 1], dy[i : i + 1])
        assert torch.equal(y[i : i + 1], alone[0])
        assert torch.equal(dx[i : i + 1], alone[1])


@every_row_norm
def test_a_residual_around_the_norm_keeps_its_own_gradient(norm: RowNorm) -> None:
    # quack#53: the gradient of h = x + r went through the norm together with that of norm(h).
    x, r = (torch.randn(6, 8, dtype=torch.float64, requires_grad=True) for _ in range(2))
    a, b = torch.randn(2, 6, 8, dtype=torch.float64)
    h = x + r
    y = norm(h)
    (y * a + h * b).sum().backward()
    wanted = b + norm.truth(h, a).dx
    for leaf in (x, r):
        assert leaf.grad is not None
        torch.testing.assert_close(leaf.grad, wanted, rtol=1e-12, atol=1e-12)


@every_row_norm
@every_half
def test_nothing_is_saved_in_half_precision(norm: RowNorm, dtype: torch.dtype) -> None:
    # helion#2273, pytorch#190828, #77507, #109188: a bfloat16 1/std costs 8 bits of every gradient,
    # a relative error of 5.2e-3 where rounding dx once costs 2.2e-3.
    x, dy = torch.randn(2, 64, 96).to(dtype)
    weight = (1 + 0.3 * torch.randn(len(norm.ones(x)))).to(dtype)
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        leaf = x.requires_grad_()
        y = norm(leaf, weight.requires_grad_())
    inputs = {leaf.data_ptr(), weight.data_ptr()}
    assert saved
    for tensor in saved:
        assert tensor.data_ptr() in inputs or torch.finfo(tensor.dtype).bits >= 32
    y.backward(dy)
    assert leaf.grad is not None
    truth = norm.truth(x, dy, weight).dx
    error = (leaf.grad.double() - truth).norm() / truth.norm()
    assert error < {torch.bfloat16: 2.3e-3, torch.float16: 3e-4}[dtype]


@every_half
def test_running_statistics_of_half_input_are_those_of_float32(dtype: torch.dtype) -> None:
    # pytorch#77507, #109188: moments computed in bfloat16.
    x = (3 + torch.randn(512, 4)).to(dtype)
    out = functional.batch_norm(x, torch.zeros(4), torch.ones(4), training=True, momentum=1.0)
    assert out.running_mean is not None
    assert out.running_var is not None
    for got, want in ((out.running_mean, x.double().mean(0)), (out.running_var, x.double().var(0))):
        assert got.dtype == torch.float32
        torch.testing.assert_close(got.double(), want, rtol=2.0**-22, atol=0)


def scale_law(f: Callable[[Tensor], Tensor], factor: float) -> float:
    """f(factor * x) / f(x), which is 1 for a norm."""
    x = torch.randn(64, 96, dtype=torch.float64)
    return (f(factor * x) / f(x)).median().item()


@every_row_norm
@pytest.mark.parametrize("factor", [2.0, 10.0, 100.0])
def test_scaling_x_changes_nothing(norm: RowNorm, factor: float) -> None:
    # llm-foundry#371: x / rsqrt(mean square); TPlinker-joint-extraction#37: (var + eps) ** 2.
    def divided_by_rsqrt(x: Tensor) -> Tensor:
        return x / torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)

    def squared(x: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + 1e-5) ** 2

    assert scale_law(lambda x: norm(x), factor) == pytest.approx(1, abs=1e-5)
    assert scale_law(divided_by_rsqrt, factor) == pytest.approx(factor**2, rel=1e-4)
    assert scale_law(squared, factor) == pytest.approx(factor**-3, rel=1e-4)


@pytest.mark.parametrize(("place", "wanted"), [("inside", 0.3015), ("outside", 0.9901)])
def test_place_of_eps_on_a_small_row(place: str, wanted: float) -> None:
    # OLMo#281: eps added after the root shows only on rows whose spread is near eps.
    x = 1e-3 * checkerboard(1, 8)
    layer = functional.layer_norm(x, 8, eps=1e-5, eps_place=place)  # type: ignore[arg-type]
    rms = functional.rms_norm(x, 8, eps=1e-5, eps_place=place)  # type: ignore[arg-type]
    for y in (layer, rms):
        assert y.abs().max().item() == pytest.approx(wanted, abs=5e-5)
