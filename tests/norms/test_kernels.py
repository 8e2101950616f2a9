"""The compiled kernels: whose bits depend on what, which memory is read and written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from normkit.kernels import cpu
from normkit.measure import assert_within, output_scale
from tests.norms.kernel_norms import (
    KERNELS,
    KernelNorm,
    assert_same_bits,
    every_kernel,
    parameters,
)
from tests.norms.regimes import DTYPES
from tests.norms.row_norms import RowNorm, check
from tests.norms.truth import row_truth

every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def test_the_kernels_run_here() -> None:
    assert cpu.loaded() is not None
    assert cpu.isa() in ("baseline", "avx2", "avx512")


@every_kernel
@every_dtype
@pytest.mark.parametrize("width", [1, 7, 257, 1030, 20000])
def test_a_row_alone_is_the_row_in_a_batch(
    norm: KernelNorm, dtype: torch.dtype, width: int
) -> None:
    x, dy = (3 + torch.randn(2, 21, width)).to(dtype)
    x[4] *= 3e3 if dtype == torch.float16 else 1e30  # rows that need a rescue leave others alone
    weight, bias = parameters(width)
    y, dx, *_ = norm.all(x, dy, weight, bias)
    for i in (0, 3, 4, 5, 20):
        alone = norm.all(x[i : i + 1], dy[i : i + 1], weight, bias)
        assert_same_bits(alone[:2] + alone[:2], [y[i : i + 1], dx[i : i + 1]] * 2, i)


# In the order of the ways to share work out: rows; blocks of rows; groups of blocks; one row.
SHARED = [(3000, 3), (700, 129), (1700, 40), (1, 40000), (2, 70001)]


@every_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("shape", SHARED, ids=str)
def test_threads_change_no_bit(
    norm: KernelNorm, dtype: torch.dtype, shape: tuple[int, int]
) -> None:
    x, dy = (1 + torch.randn(2, *shape, dtype=torch.float64)).to(dtype)
    weight, bias = parameters(shape[1], dtype)
    want = norm.all(x, dy, weight, bias)
    frozen = norm(x, weight, bias)
    for threads in (2, 3):
        torch.set_num_threads(threads)
        assert_same_bits(norm.all(x, dy, weight, bias), want, threads)
        assert torch.equal(norm(x, weight, bias), frozen)
        leaf = x.detach().requires_grad_()  # without shares of parameters another loop runs
        (dx,) = torch.autograd.grad(norm(leaf, weight, bias), leaf, dy)
        assert torch.equal(dx, want[1])


@every_kernel
@pytest.mark.parametrize("extra", [1, 100, 5000])
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_without_gradient_change_no_bit(norm: KernelNorm, extra: int, threads: int) -> None:
    torch.set_num_threads(threads)
    x, dy = torch.randn(2, 1000, 48)
    more = torch.randn(extra, 48)
    weight, bias = parameters(48)
    want = norm.all(x, dy, weight, bias)[2:]
    got = norm.all(torch.cat([x, more]), torch.cat([dy, 0 * more]), weight, bias)[2:]
    assert_same_bits([*got, *got], [*want, *want])


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_small_gradients_after_a_large_one_are_not_lost(name: str) -> None:
    # 2^24 + 1 is 2^24 in float32: one after the other, 4095 ones would vanish.
    dy = torch.ones(4096, 2)
    dy[0] = 2.0**24
    check(RowNorm(name, "cpu"), torch.randn(4096, 2), dy)


@every_kernel
@every_dtype
def test_one_long_row(norm: KernelNorm, dtype: torch.dtype) -> None:
    # Two threads share a row of 262144, and both rows of (2, 512, 512) normalised as wholes.
    torch.set_num_threads(3)
    for shape in ((1, 262144), (2, 512, 512)):
        x, dy = (2 + torch.randn(2, *shape)).to(dtype)
        weight, bias = parameters(shape[1:], dtype)
        y, dx, dweight, dbias = norm.all(x, dy, weight, bias)
        flat = [t.reshape(shape[0], -1) for t in (x, dy)]
        gain, shift = weight.double().flatten(), bias.double().flatten()
        truth = row_truth(*flat, gain, shift, center=norm.center, eps=1e-5)
        how = {
            "compute_dtype": torch.promote_types(dtype, torch.float32),
            "terms": flat[0].shape[1],
        }
        scale = output_scale(truth.x_hat, gain, shift)
        assert_within(y.reshape(truth.y.shape), truth.y, row_scale=scale, **how)
        size = truth.inverse * 3 * truth.g.abs().amax(-1, keepdim=True)
        assert_within(dx.reshape(truth.dx.shape), truth.dx, row_scale=size, **how)
        terms = truth.bias_terms.abs().sum(0)
        assert_within(dbias.flatten(), truth.dbias, row_scale=terms, **how)
        terms = terms * truth.x_hat.abs().max()
        assert_within(dweight.flatten(), truth.dweight, row_scale=terms, **how)


def _stepped(x: Tensor) -> Tensor:
    return torch.stack([x, torch.full_like(x, torch.nan)], -1).flatten(-2)[..., ::2]


def _apart(x: Tensor) -> Tensor:
    return torch.nn.functional.pad(x, (3, 2), value=torch.nan)[..., 3:-2]


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "last axis outermost": lambda x: x.movedim(-1, 0).contiguous().movedim(0, -1),
    "axes before in another order": lambda x: x.transpose(0, 2).contiguous().transpose(0, 2),
    "heads before positions": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "every second element": _stepped,
    "inside a larger one": _apart,
    "seven axes": lambda x: x[:, None, :, None, :, None],
}


@every_kernel
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_strides_change_no_bit(
    norm: KernelNorm, dtype: torch.dtype, layout: Callable[[Tensor], Tensor]
) -> None:
    x, dy = (1 + torch.randn(2, 3, 4, 5, 37)).to(dtype)
    kept = [layout(t).clone() for t in (x, dy)]
    weight, bias = parameters(37)
    shape = layout(x).shape
    want = [t.reshape(shape) if t.shape == x.shape else t for t in norm.all(x, dy, weight, bias)]
    views = layout(x), layout(dy)
    assert_same_bits(norm.all(*views, weight, bias), want)
    assert_same_bits(norm.all(views[0], dy.reshape(shape), weight, bias), want, "x alone")
    assert_same_bits(norm.all(x.reshape(shape), views[1], weight, bias), want, "dy alone")
    wider = torch.stack([weight, bias], -1)
    assert_same_bits(norm.all(x.reshape(shape), views[1], *wider.unbind(-1)), want, "parameters")
    for a, b in zip(views, kept, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


@every_kernel
def test_expanded_tensors_are_read_in_place(norm: KernelNorm) -> None:
    weight, bias = parameters(40)
    for shape in ((1, 40), (6, 1), (1, 1)):
        x, dy = torch.randn(2, *shape).expand(2, 6, 40)
        want = norm.all(x.contiguous(), dy.contiguous(), weight, bias)
        assert_same_bits(norm.all(x, dy, weight, bias), want, shape)
        one = weight[:1].expand(40)
        want = norm.all(x, dy, one.contiguous(), bias)
        assert_same_bits(norm.all(x, dy, one, bias), want, shape)


@every_kernel
@every_dtype
@pytest.mark.parametrize("width", [1, 3, 8, 31, 100, 515])
def test_what_lies_beside_a_tensor_is_neither_read_nor_written(
    norm: KernelNorm, dtype: torch.dtype, width: int
) -> None:
    memory = torch.full((2, 9 * width + 64), torch.nan, dtype=dtype)
    for at in (0, 1, 17):
        x, dy = (part[at : at + 9 * width].view(9, width) for part in memory)
        x.copy_(torch.randn(9, width))
        dy.copy_(torch.randn(9, width))
        before = memory.clone()
        weight, bias = parameters(width)
        got = norm.all(x, dy, weight, bias)
        assert_same_bits(got, norm.all(x.clone(), dy.clone(), weight, bias))
        assert all(t.isfinite().all() for t in got)
        torch.testing.assert_close(memory, before, rtol=0, atol=0, equal_nan=True)
        memory.fill_(torch.nan)


@every_kernel
def test_offsets_beyond_32_bits(norm: KernelNorm, tmp_path: Path) -> None:
    # Liger-Kernel#1483, pytorch#184826: row times stride wrapped at 2^31 elements. The file has
    # holes, and so costs two pages.
    apart = 2**31 + 8
    file = str(tmp_path / "memory")
    memory = torch.from_file(file, shared=True, size=apart + 64, dtype=torch.bfloat16)
    far = memory.as_strided((2, 40), (apart, 1))
    near = torch.randn(2, 40).bfloat16()
    far.copy_(near)
    other = torch.randn(2, 40).bfloat16()
    weight, bias = parameters(40)
    assert_same_bits(norm.all(far, other, weight, bias), norm.all(near, other, weight, bias))
    assert_same_bits(norm.all(other, far, weight, bias), norm.all(other, near, weight, bias))


@every_kernel
@pytest.mark.parametrize("shape", [(0, 5), (2, 0, 5)], ids=str)
def test_nothing_in_nothing_out(norm: KernelNorm, shape: tuple[int, ...]) -> None:
    x = torch.empty(shape)
    y, dx, dweight, dbias = norm.all(x, x, *parameters(shape[-1]))
    assert y.shape == dx.shape == shape
    assert torch.equal(dweight, torch.zeros(shape[-1]))
    assert torch.equal(dbias, torch.zeros(shape[-1]))


@pytest.mark.parametrize("needed", range(1, 8))
def test_every_subset_of_gradients(needed: int) -> None:
    x, dy = torch.randn(2, 40, 17)
    weight, bias = parameters(17)
    for norm in KERNELS:
        want = norm.all(x, dy, weight, bias)[1:]
        tensors = [t.detach().clone() for t in (x, weight, bias)]
        for i, t in enumerate(tensors):
            t.requires_grad_(bool(needed >> i & 1))
        norm(*tensors).backward(dy)
        for t, gradient in zip(tensors, want, strict=True):
            assert t.grad is None if not t.requires_grad else torch.equal(t.grad, gradient)
