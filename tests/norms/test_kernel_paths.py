"""When the compiled kernels run and when not: situations, dtypes, tensors that are not plain."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from normkit.errors import ImplError
from normkit.kernels import cpu
from normkit.kernels.cpu import library
from normkit.measure import error_bound, output_scale
from tests.norms.kernel_norms import KernelNorm, every_kernel, parameters
from tests.norms.regimes import DTYPES
from tests.norms.truth import row_truth


class Marked(Tensor):
    """A subclass that changes nothing."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes that the kernels were asked for."""
    found: list[str] = []
    loaded = cpu.loaded

    def note() -> Any:
        found.append("asked")
        return loaded()

    monkeypatch.setattr(cpu, "loaded", note)
    return found


@every_kernel
def test_auto_and_cpu_are_one(norm: KernelNorm, asked: list[str]) -> None:
    x, dy = 1e3 + torch.randn(2, 6, 40)
    weight, bias = parameters(40)
    results = [norm.all(x, dy, weight, bias, impl=impl) for impl in ("auto", "cpu", "torch")]
    assert len(asked) == 4  # forward and backward, twice
    assert all(torch.equal(a, b) for a, b in zip(*results[:2], strict=True))
    assert not torch.equal(results[0][0], results[2][0])


@every_kernel
def test_every_situation_with_impl_cpu(norm: KernelNorm) -> None:
    x, v = torch.randn(2, 3, 40)
    weight, bias = parameters(40)
    want = norm(x, weight, bias)
    wide = norm(x.double(), weight.double(), bias.double(), impl="torch")

    def call(t: Tensor) -> Tensor:
        return norm(t, weight, bias)

    with torch.no_grad():
        assert torch.equal(call(x), want)
    with torch.inference_mode():
        assert torch.equal(call(x), want)
    assert torch.equal(call(x.clone().requires_grad_()), want)
    compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x), want)
    leaf = x.clone().requires_grad_()
    compiled(leaf).backward(v)
    eager = x.clone().requires_grad_()
    call(eager).backward(v)
    assert torch.equal(leaf.grad, eager.grad)
    torch._dynamo.reset()
    for transformed in (
        torch.func.vmap(call)(x),
        torch.func.functional_call(torch.nn.Identity(), {}, (call(x),)),
        torch.func.jvp(call, (x,), (v,))[0],
    ):
        torch.testing.assert_close(transformed.double(), wide, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(torch.func.vjp(call, x)[1](v)[0], eager.grad)


@every_kernel
def test_transforms_and_tensors_that_are_not_plain_never_reach_the_kernel(
    norm: KernelNorm, asked: list[str]
) -> None:
    x, v = torch.randn(2, 3, 40)
    torch.func.vmap(lambda t: norm(t, impl="auto"))(x)
    torch.func.jvp(lambda t: norm(t, impl="auto"), (x,), (v,))
    torch.func.grad(lambda t: norm(t, impl="auto").square().sum())(x)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, v)
        norm(dual, impl="auto")
    assert isinstance(norm(x.as_subclass(Marked), impl="auto"), Marked)
    with FakeTensorMode() as mode:
        assert norm(mode.from_tensor(x), impl="auto").shape == x.shape
    assert norm(x.to("meta"), impl="auto").is_meta
    assert asked == []


def _message(norm: KernelNorm, reason: str) -> str:
    name = {"layer_norm": "LayerNorm", "rms_norm": "RMSNorm"}.get(norm.name, norm.name)
    return f"{name}: impl='cpu' must be able to run; {reason}. Try impl='auto'."


REFUSED: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "subclass": (lambda x: x.as_subclass(Marked), "a tensor is no plain one but a Marked"),
    "meta": (lambda x: x.to("meta"), "a tensor is on meta"),
}


@every_kernel
@pytest.mark.parametrize("case", REFUSED)
def test_impl_cpu_says_which_tensor_it_cannot_take(norm: KernelNorm, case: str) -> None:
    change, reason = REFUSED[case]
    with pytest.raises(ImplError) as error:
        norm(change(torch.randn(3, 4)))
    assert str(error.value) == _message(norm, reason)


@every_kernel
def test_a_float64_parameter_beside_narrower_rows_takes_torch(norm: KernelNorm) -> None:
    x = torch.randn(3, 40)
    weight, bias = parameters(40, torch.float64)
    for gain, shift in ((weight, bias), (weight, bias.float()), (weight.float(), bias)):
        want = norm(x, gain, shift, impl="torch")
        assert torch.equal(norm(x, gain, shift, impl="auto"), want)
        with pytest.raises(ImplError) as error:
            norm(x, gain, shift)
        reason = "a parameter is torch.float64 beside x of torch.float32"
        assert str(error.value) == _message(norm, reason)


@every_kernel
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_pair_of_parameter_dtypes(norm: KernelNorm, dtype: torch.dtype) -> None:
    # pytorch#81851, ChatGLM-Efficient-Tuning#23, open_clip#916: half weight with float32 bias,
    # float32 rows with a half weight ... raise in torch.
    others = DTYPES if dtype == torch.float64 else DTYPES[:3]
    x, dy = (1 + torch.randn(2, 5, 37)).to(dtype)
    for weight_dtype, bias_dtype in itertools.product(others, repeat=2):
        weight, bias = parameters(37, weight_dtype)[0], parameters(37, bias_dtype)[1]
        y, dx, dweight, dbias = norm.all(x, dy, weight, bias)
        assert (y.dtype, dx.dtype) == (dtype, dtype)
        assert (dweight.dtype, dbias.dtype) == (weight_dtype, bias_dtype)
        gain, shift = weight.double(), bias.double()
        truth = row_truth(x, dy, gain, shift, center=norm.center, eps=1e-5)
        compute = torch.promote_types(dtype, torch.float32)
        for got, want, scale in (
            (y, truth.y, output_scale(truth.x_hat, gain, shift)),
            (dx, truth.dx, 3 * truth.inverse * truth.g.abs().amax(-1, keepdim=True)),
            (dweight, truth.dweight, truth.bias_terms.abs().sum() * truth.x_hat.abs().max()),
            (dbias, truth.dbias, truth.bias_terms.abs().sum(0)),
        ):
            how = {"dtype": got.dtype, "compute_dtype": compute, "terms": 185}
            bound = error_bound(want, row_scale=scale, **how)
            assert ((got.double() - want).abs() <= bound).all()


@every_kernel
def test_absent_parameters_and_second_derivatives(norm: KernelNorm) -> None:
    x = torch.randn(3, 40, dtype=torch.float64)
    ones, zeros = torch.ones(40, dtype=torch.float64), torch.zeros(40, dtype=torch.float64)
    assert torch.equal(norm(x), norm(x, ones, zeros))
    assert torch.equal(norm(x, ones), norm(x, ones, zeros))
    # pytorch#175754: create_graph goes by the formula, to any order.
    assert torch.autograd.gradcheck(norm, (x[:, :5].clone().requires_grad_(), None, None))
    small = x[:2, :4].clone().requires_grad_()
    weight = ones[:4].clone().requires_grad_()
    assert torch.autograd.gradgradcheck(norm, (small, weight, None))


@every_kernel
def test_switched_off(norm: KernelNorm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_settled", False)
    monkeypatch.setattr(library, "_namespace", None)
    monkeypatch.setattr(library, "_status", library.Status())
    monkeypatch.setenv("NORMKIT_CPU", "off")
    x = 1e3 + torch.randn(3, 40)
    assert torch.equal(norm(x, impl="auto"), norm(x, impl="torch"))
    with pytest.raises(ImplError) as error:
        norm(x)
    reason = "NORMKIT_CPU=off forbids the CPU kernels: unset NORMKIT_CPU"
    assert str(error.value) == _message(norm, reason)
