"""norm_linear: the shared contract of norms where it fits, compiled graphs, refusals."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.func import grad, vmap

import normkit
from normkit.errors import DtypeError, NormkitError, OptionError, ShapeError
from normkit.functional import norm_linear
from tests.norms import test_contract_derivatives as derivatives
from tests.norms import test_contract_forms as forms
from tests.norms import test_contract_graphs as graphs
from tests.norms import test_contract_modules as modules
from tests.norms.cases import Case
from tests.norms.cases.case import built


def case(name: str, **options: Any) -> Case:
    """A layer with as many outputs as inputs, so that the contract's gradients fit."""
    build = built(name, normkit.NormLinear, 4, 4, **options)
    return Case(name=name, build=build, shape=(3, 2, 4), op="norm_linear")


CASES = (
    case("layer_norm"),
    case("rms_norm", norm="rms_norm", eps=0.1, eps_place="outside", zero_centred=True, bias=False),
)


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    """No graph of another test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


TESTS = (
    derivatives.test_first_and_second_derivatives,
    derivatives.test_third_derivative_equals_the_functional_one,
    derivatives.test_jvp_against_finite_differences,
    derivatives.test_forward_mode_outside_torch_func,
    derivatives.test_hessian_equals_double_backward,
    derivatives.test_jacrev_equals_backward,
    derivatives.test_the_output_may_be_written_in_place,
    forms.test_expanded_input_and_gradient,
    forms.test_incoming_gradient_and_input_are_not_written,
    forms.test_an_empty_batch_changes_nothing,
    forms.test_gradients_off_gives_the_same_bits,
    graphs.test_compiles_whole_and_gives_the_same,
    graphs.test_compiled_gradients,
    graphs.test_functional_transforms_inside_a_compiled_region,
    graphs.test_a_new_batch_size_needs_no_new_graph_twice,
    graphs.test_exports_as_one_op_that_survives_saving,
    graphs.test_exports_with_a_dynamic_batch,
    modules.test_deepcopy_pickle_and_torch_save,
    modules.test_meta_device_runs,
)


@pytest.mark.parametrize(  # the norms stand in the contract themselves: here one of them a test
    ("test", "case"),
    list(zip(TESTS, itertools.cycle(CASES))),
    ids=lambda part: part.name if isinstance(part, Case) else part.__name__.removeprefix("test_"),
)
def test_contract(test: Callable[[Case], None], case: Case) -> None:
    test(case)


def test_vmap_and_gradients_per_sample() -> None:
    case = CASES[0]
    f, (x, *parameters) = derivatives.as_function(case, case.layer())
    x = x.detach()
    torch.testing.assert_close(vmap(lambda t: f(t, *parameters))(x), f(x, *parameters))
    stacked = [torch.stack([p, 2 * p]) for p in parameters]
    got = vmap(lambda *p: f(x, *p))(*stacked)
    torch.testing.assert_close(got[1], f(x, *(2 * p for p in parameters)))

    def loss(ps: list[Tensor], t: Tensor) -> Tensor:
        return f(t, *ps).pow(3).sum()

    together = vmap(grad(loss), in_dims=(None, 0))(parameters, x)
    for i in range(len(x)):
        alone = torch.autograd.grad(loss(parameters, x[i]), parameters)
        for a, b in zip(together, alone, strict=True):
            torch.testing.assert_close(a[i], b)


def test_second_derivatives_of_several_outputs() -> None:
    def f(*t: Tensor) -> tuple[Tensor, ...]:
        return norm_linear(t[0], t[1:3], (None, t[3]), norm_weight=t[4], eps=0.1)

    shapes = ((2, 4), (3, 4), (2, 4), (2,), (4,))
    given = [torch.randn(s, dtype=torch.float64).requires_grad_() for s in shapes]
    assert torch.autograd.gradcheck(f, given)
    assert torch.autograd.gradgradcheck(f, given, atol=1e-4)


def nodes(program: torch.fx.GraphModule, op: str) -> list[torch.fx.Node]:
    """The calls of one of our ops in a graph."""
    return [n for n in program.graph.nodes if str(n.target).startswith(f"normkit.{op}.")]


@pytest.mark.parametrize("frozen", [(), (1,), (0, 2)], ids=str)
def test_a_compiled_backward_pass_computes_what_is_needed(frozen: tuple[int, ...]) -> None:
    seen: list[Any] = []

    def keep(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        seen.extend(nodes(graph, "norm_linear_backward"))
        return make_boxed_func(graph)

    given = [torch.randn(s).requires_grad_() for s in ((6, 4), (3, 4), (4,))]
    for i in frozen:
        given[i].requires_grad_(False)
    backend = aot_autograd(fw_compiler=keep)
    f = torch.compile(
        lambda x, w, nw: norm_linear(x, w, norm_weight=nw), fullgraph=True, backend=backend
    )
    f(*given).sum().backward()
    (node,) = seen
    (needed,) = (argument for argument in node.args if isinstance(argument, list))
    assert [needed[i] for i in (0, 3, 1)] == [i not in frozen for i in range(3)]
    eager = torch.autograd.grad(
        norm_linear(given[0], given[1], norm_weight=given[2]).sum(),
        [t for t in given if t.requires_grad],
    )
    got = [t.grad for t in given if t.requires_grad]
    torch.testing.assert_close(got, list(eager))


def test_a_compiled_output_that_nobody_uses_gives_zero_gradients() -> None:
    x, w1, w2, b1 = (torch.randn(s).requires_grad_() for s in ((6, 4), (3, 4), (2, 4), (3,)))
    f = torch.compile(
        lambda: norm_linear(x, (w1, w2), (b1, None))[1], fullgraph=True, backend="aot_eager"
    )
    dout = torch.randn(6, 2)
    f().backward(dout)
    assert torch.equal(w1.grad, torch.zeros_like(w1))  # type: ignore[arg-type]
    assert torch.equal(b1.grad, torch.zeros_like(b1))  # type: ignore[arg-type]
    want = torch.autograd.grad(norm_linear(x, w2), (x, w2), dout)
    torch.testing.assert_close([x.grad, w2.grad], list(want))


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
def test_compiled_under_autocast(half: torch.dtype) -> None:
    given = [torch.randn(s).requires_grad_() for s in ((6, 4), (3, 4), (3,))]
    f = torch.compile(norm_linear, fullgraph=True, backend="aot_eager")
    found = []
    for g in (norm_linear, f):
        with torch.autocast("cpu", half):
            out = g(*given)
        found.append([out, *torch.autograd.grad(out.float().pow(2).sum(), given)])
    for a, b in zip(*found, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b)


def op_inputs(dtype: torch.dtype) -> list[tuple[object, ...]]:
    """Arguments of the op: one linear layer with everything, three with little."""

    def leaf(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=dtype).requires_grad_()

    one = (leaf(2, 5), leaf(5), leaf(5), leaf(3, 5), leaf(3), None, None, None, None)
    three = (leaf(2, 5), None, None, leaf(3, 5), None, leaf(1, 5), leaf(1), leaf(2, 5), None)
    rms = ("rms_norm", 1, 0.1, "outside", True, "before_gain", "promoted", 2)
    return [
        (*one, "layer_norm", 1, 1e-5, "inside", False, "once", "input", None, None, "auto"),
        (*three, *rms, None, "auto"),
        (*one, *rms, "bfloat16", "torch"),
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("number", range(3))
def test_opcheck(number: int, dtype: torch.dtype) -> None:
    torch.library.opcheck(torch.ops.normkit.norm_linear.default, op_inputs(dtype)[number])


def w(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


REFUSED: list[tuple[type[NormkitError], dict[str, Any], str]] = [
    (
        ShapeError,
        {"weight": w(4, 3)},
        "weight must be (out_features, in_features), x (*, in_features); they are (4, 3) and "
        "(2, 4). Try weight.t().",
    ),
    (
        ShapeError,
        {"x": w(), "weight": w(3, 4)},
        "weight must be (out_features, in_features), x (*, in_features); they are (3, 4) and ().",
    ),
    (
        ShapeError,
        {"weight": [w(3, 4), w(3)]},
        "weight 1 must be (out_features, in_features), x (*, in_features); they are (3,) and "
        "(2, 4).",
    ),
    (
        ShapeError,
        {"weight": [w(3, 4), w(3, 4)], "bias": [None, w(2)]},
        "bias 1 must have one value per output, (3,); it is (2,).",
    ),
    (
        ShapeError,
        {"norm_weight": w(3)},
        "norm_weight must have the shape of the normalised axes, (4,); it is (3,).",
    ),
    (
        ShapeError,
        {"normalized_shape": 2},
        "the last axis of x must be 2; x is (2, 4). Try normalized_shape=4, or "
        "x.transpose(-1, -2).",
    ),
    (
        OptionError,
        {"weight": [w(3, 4)] * 4},
        "one norm takes from 1 to 3 weights; there are 4. Try torch.cat(weights) and "
        "out.split(sizes, -1).",
    ),
    (
        OptionError,
        {"weight": [w(3, 4)] * 2, "bias": w(3)},
        "2 weights have as many biases; bias is a tensor. Give None for each that is not there.",
    ),
    (
        OptionError,
        {"weight": [w(3, 4)] * 2, "bias": [None]},
        "2 weights have as many biases; there are 1. Give None for each that is not there.",
    ),
    (
        OptionError,
        {"bias": [w(3)]},
        "one weight has one bias, a tensor or None; bias is a list.",
    ),
    (
        OptionError,
        {"rounding": "before_gain"},
        "rounding, output_dtype and fraction are options of norm='rms_norm'; norm is "
        "'layer_norm'. Leave them out.",
    ),
    (
        OptionError,
        {"norm": "batch_norm"},
        "norm must be 'layer_norm' or 'rms_norm'; norm is 'batch_norm'.",
    ),
    (
        DtypeError,
        {"x": w(2, 4, dtype=torch.bfloat16)},
        "weight and bias must have the dtype of what the norm returns; they are torch.float32 and "
        "torch.bfloat16. Cast one of them, or call it under torch.autocast.",
    ),
    (
        DtypeError,
        {"x": torch.nested.nested_tensor([w(2, 4), w(1, 4)], layout=torch.jagged)},
        "x must not be a nested tensor; it is one. Call the norm and F.linear on it.",
    ),
]


@pytest.mark.parametrize(("error", "change", "text"), REFUSED, ids=range(len(REFUSED)))
def test_refusals(error: type[NormkitError], change: dict[str, Any], text: str) -> None:
    given = {"x": w(2, 4), "weight": w(3, 4), **change}
    with pytest.raises(error) as raised:
        norm_linear(given.pop("x"), given.pop("weight"), given.pop("bias", None), **given)
    assert str(raised.value) == f"norm_linear: {text}"
