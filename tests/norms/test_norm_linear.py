"""norm_linear against the norm and F.linear called apart: the same bits, and nothing kept but x."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from normkit import ops, reference
from normkit.functional import layer_norm, norm_linear, rms_norm
from normkit.measure import saved_bytes
from tests.norms.regimes import DTYPES

N = 8  # in_features
OPTIONS: dict[str, dict[str, Any]] = {
    "layer_norm": {},
    "layer_norm_outside": {"eps": 0.1, "eps_place": "outside", "zero_centred": True},
    "layer_norm_two_axes": {"normalized_shape": (3, N), "eps": 0.5},
    "rms_norm": {"norm": "rms_norm"},
    "rms_norm_llama": {"norm": "rms_norm", "eps": 1e-6, "rounding": "before_gain"},
    "rms_norm_gemma": {"norm": "rms_norm", "eps": 1e-3, "zero_centred": True, "fraction": 0.5},
}
every_norm = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
Out = Sequence[Tensor]


def apart(x: Tensor, nw: Tensor | None, nb: Tensor | None, *linears: Any, **options: Any) -> Out:
    """The unfused pair."""
    how = dict(options)
    shape = how.pop("normalized_shape", N)
    if how.pop("norm", "layer_norm") == "layer_norm":
        y = layer_norm(x, shape, nw, nb, **how)
    else:
        y = rms_norm(x, shape, nw, bias=nb, **how)
    return [F.linear(y, w, b) for w, b in zip(linears[::2], linears[1::2], strict=True)]


def fused(x: Tensor, nw: Tensor | None, nb: Tensor | None, *linears: Any, **options: Any) -> Out:
    """The same by norm_linear."""
    weights, biases = list(linears[::2]), list(linears[1::2])
    return norm_linear(x, weights, biases, norm_weight=nw, norm_bias=nb, **options)


def leaves(
    dtype: torch.dtype = torch.float64,
    *,
    leading: tuple[int, ...] = (2, 3),
    outs: Sequence[int] = (5,),
    norm_dtype: torch.dtype | None = None,
    **options: Any,
) -> list[Tensor]:
    """x, norm_weight, norm_bias and, for each linear layer, weight and bias."""
    shape = options.get("normalized_shape", (N,))
    shapes = [(*leading, N), shape, shape, *(s for k in outs for s in ((k, N), (k,)))]
    dtypes = [dtype, *[norm_dtype or dtype] * 2, *[dtype] * (2 * len(outs))]
    values = [torch.randn(s, dtype=torch.float64) for s in shapes]
    return [v.to(d).requires_grad_() for v, d in zip(values, dtypes, strict=True)]


def results(
    f: Callable[..., Out],
    given: Sequence[Tensor],
    half: torch.dtype | None = None,
    **options: Any,
) -> list[Tensor]:
    """Outputs, and the gradients of the leaves for the same incoming gradients each time.

    ``half``: under autocast, forward alone, as torch advises.
    """
    with torch.autocast("cpu", half or torch.bfloat16, enabled=half is not None):
        outs = f(*given, **options)
    generator = torch.Generator().manual_seed(7)
    douts = [torch.randn(o.shape, generator=generator).to(o.dtype) for o in outs]
    needed = [t for t in given if t.requires_grad]
    return [*outs, *torch.autograd.grad(outs, needed, douts)]


def assert_same_bits(got: Sequence[Tensor], want: Sequence[Tensor]) -> None:
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


@every_norm
@every_dtype
def test_bits_are_those_of_the_pair(dtype: torch.dtype, options: dict[str, Any]) -> None:
    for outs in ((5,), (5, 2), (3, 3, 7)):
        given = leaves(dtype, outs=outs, **options)
        assert_same_bits(results(fused, given, **options), results(apart, given, **options))


def test_the_reference_by_hand() -> None:
    x, nw, nb, w, b = (t.detach() for t in leaves(leading=(4,)))
    x_hat = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
    (out,) = fused(x, nw, nb, w, b)
    torch.testing.assert_close(out, torch.einsum("mn,kn->mk", x_hat * nw + nb, w) + b)
    dout = torch.randn_like(out)
    dy, dw, db = reference.norm_linear_backward(dout, x_hat, w, bias=True)
    torch.testing.assert_close(dy, torch.einsum("mk,kn->mn", dout, w))
    torch.testing.assert_close(dw, torch.einsum("mk,mn->kn", dout, x_hat))
    torch.testing.assert_close(db, dout.sum(0))


@settings(max_examples=25)
@given(leading=st.lists(st.integers(0, 3), max_size=3), single=st.booleans())
def test_any_leading_shape(leading: list[int], single: bool) -> None:
    given = leaves(leading=tuple(leading))
    x, nw, nb, w, b = given
    if single:
        assert torch.equal(norm_linear(x, w, b, norm_weight=nw, norm_bias=nb), apart(*given)[0])
    got, want = results(fused, given), results(apart, given)
    for a, e in zip(got, want, strict=True):  # a single row takes another product in torch
        torch.testing.assert_close(a, e, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("absent", [(1, 2), (2,), (4,), (1, 2, 4)], ids=str)
def test_parameters_that_are_not_there(absent: tuple[int, ...]) -> None:
    given = leaves()
    there = [t for i, t in enumerate(given) if i not in absent]

    def filled(f: Callable[..., Out]) -> Callable[..., Out]:
        def call(*some: Tensor) -> Out:
            rest = iter(some)
            return f(*(None if i in absent else next(rest) for i in range(len(given))))

        return call

    assert_same_bits(results(filled(fused), there), results(filled(apart), there))


@every_norm
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
@every_dtype
def test_autocast_does_what_it_does_to_the_pair(
    dtype: torch.dtype, half: torch.dtype, options: dict[str, Any]
) -> None:
    given = leaves(dtype, outs=(5, 3), norm_dtype=torch.float32, **options)
    got, want = (results(f, given, half, **options) for f in (fused, apart))
    assert got[0].dtype == (torch.float64 if dtype == torch.float64 else half)
    assert_same_bits(got, want)
    with torch.autocast("cpu", half):  # backward inside too
        got, want = (results(f, given, half, **options) for f in (fused, apart))
    assert_same_bits(got, want)


def test_autocast_keeps_no_copy_of_a_weight_that_others_use() -> None:
    """Its cache, filled where gradients are off, would take the gradient from the next user."""
    x, nw, _, w, b = leaves(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        norm_linear(x, w, b, norm_weight=nw)
        F.linear(x, w).sum().backward()
    assert w.grad is not None


def test_a_norm_that_returns_the_dtype_of_its_weight() -> None:
    """Apex: x in half, weight and linear layer in float32, and no autocast."""
    given = leaves(torch.float32)
    given[0] = given[0].detach().bfloat16().requires_grad_()
    options = {"norm": "rms_norm", "output_dtype": "promoted"}
    assert_same_bits(results(fused, given, **options), results(apart, given, **options))


def test_one_backward_pass_through_some_outputs() -> None:
    given = leaves(outs=(5, 2, 3))
    got, want = ([*f(*given)] for f in (fused, apart))
    dout = torch.randn_like(got[1])
    for some in (got, want):
        some[:] = torch.autograd.grad(some[1], given, dout, allow_unused=True)
    assert [a is None for a in got] == [b is None for b in want]
    assert_same_bits([a for a in got if a is not None], [b for b in want if b is not None])


def strided(t: Tensor) -> Tensor:
    return torch.stack([t, torch.full_like(t, torch.nan)], -1).flatten(-2)[..., ::2]


@pytest.mark.parametrize(
    "view",
    [strided, lambda t: t.transpose(0, 1), lambda t: t[:1, :1].expand(4, 3, N)],
    ids=["strided", "transposed", "expanded"],
)
def test_views_of_x_and_of_the_gradient(view: Callable[[Tensor], Tensor]) -> None:
    x, *rest = (t.detach() for t in leaves(outs=(N,)))
    dout = torch.randn_like(x)
    given = [view(x).requires_grad_(), *(t.requires_grad_() for t in rest)]
    found = []
    for f in (fused, apart):
        (out,) = f(*given)
        found.append([out, *torch.autograd.grad(out, given, view(dout))])
    assert_same_bits(*found)


# What is kept, and what is computed.


@pytest.mark.parametrize("cast", [False, True], ids=["plain", "autocast"])
@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_nothing_is_kept_beside_x_and_the_parameters(norm: str, cast: bool) -> None:
    given = leaves(torch.float32, outs=(5, 2))
    given[1:] = [nn.Parameter(t.detach()) for t in given[1:]]
    with torch.autocast("cpu", torch.bfloat16, enabled=cast):
        kept = saved_bytes(lambda *t: fused(*t, norm=norm), *given)
        before = saved_bytes(lambda *t: apart(*t, norm=norm), *given)
    assert kept.new == 0
    assert kept.inputs == given[0].nbytes
    assert before.new >= given[0].nbytes // (2 if cast else 1)  # y at least


class Products(TorchDispatchMode):
    """Counts matrix products."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("needed", "products", "norms", "backwards"),
    [
        ((True, True, True, True, True), 2, 1, 1),
        ((True, False, False, False, False), 1, 0, 1),
        ((False, True, False, False, True), 1, 0, 1),
        ((False, False, False, True, False), 1, 1, 0),
        ((False, False, False, False, True), 0, 0, 0),
    ],
)
def test_what_is_not_needed_is_not_computed(
    needed: tuple[bool, ...],
    products: int,
    norms: int,
    backwards: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = [t.detach().requires_grad_(n) for t, n in zip(leaves(), needed, strict=True)]
    calls = {"run": 0, "run_backward": 0}
    for name in calls:

        def counted(self: Any, *args: Any, name: str = name, old: Any = None) -> Any:
            calls[name] += 1
            return old(self, *args)

        old = getattr(ops.LayerNormFormula, name)
        monkeypatch.setattr(
            ops.LayerNormFormula, name, lambda self, *a, f=counted, o=old: f(self, *a, old=o)
        )
    (out,) = fused(*given)
    assert calls == {"run": 1, "run_backward": 0}  # the norm takes its own fastest path
    with Products() as counter:
        out.sum().backward()
    assert counter.count == products
    assert calls == {"run": 1 + norms, "run_backward": backwards}
    assert tuple(t.grad is not None for t in given) == needed


def test_one_norm_serves_several_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    old = ops.LayerNormFormula.run
    monkeypatch.setattr(
        ops.LayerNormFormula, "run", lambda self, *a: calls.append(1) or old(self, *a)
    )
    outs = fused(*leaves(outs=(5, 2, 3)))
    assert len(calls) == 1
    sum(o.sum() for o in outs).backward()  # type: ignore[union-attr]
    assert len(calls) == 2


def test_every_subset_of_needed_gradients() -> None:
    values = leaves()
    want = results(fused, values)[1:]
    for needs in list(itertools.product((True, False), repeat=len(values)))[:-1]:
        some = [t.detach().requires_grad_(n) for t, n in zip(values, needs, strict=True)]
        got = iter(results(fused, some)[1:])
        for need, gradient in zip(needs, want, strict=True):
            assert not need or torch.equal(next(got), gradient)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_and_deterministic_mode(reentrant: bool) -> None:
    given = leaves(torch.bfloat16)
    want = results(fused, given)
    torch.use_deterministic_algorithms(True)
    try:
        out = checkpoint(lambda *t: fused(*t)[0], *given, use_reentrant=reentrant)
        generator = torch.Generator().manual_seed(7)
        out.backward(torch.randn(out.shape, generator=generator).to(out.dtype))
    finally:
        torch.use_deterministic_algorithms(False)
    assert_same_bits([out, *(t.grad for t in given)], want)  # type: ignore[list-item]


@every_dtype
def test_impl_is_that_of_the_norm(dtype: torch.dtype) -> None:
    given = leaves(dtype)
    got, want = results(fused, given, impl="torch"), results(apart, given, impl="torch")
    assert_same_bits(got, want)
