"""The shared contract: torch.compile, torch.export, and the custom ops themselves."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
import torch
from torch.export import Dim

from tests.norms.cases import CASES, STATELESS_CASES, Case

every_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
FIRST_OF_OP = {case.op: case for case in reversed(STATELESS_CASES) if case.op}
stateless_case = pytest.mark.parametrize("case", STATELESS_CASES, ids=lambda c: c.name)


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    """No graph of another test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def ops_in(graph: torch.fx.GraphModule) -> set[str]:
    """Names of our ops among the nodes of a graph."""
    names = {str(node.target) for node in graph.graph.nodes if node.op == "call_function"}
    return {name.split(".")[1] for name in names if name.startswith("normkit.")}


@every_case
def test_compiles_whole_and_gives_the_same(case: Case) -> None:
    graphs: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        graphs.append(graph)
        return graph

    eager, compiled = case.layer(), case.layer()
    compiled.load_state_dict(eager.state_dict())
    x = case.input()
    f = torch.compile(case.function(compiled), fullgraph=True, backend=keep)
    torch.testing.assert_close(f(x), case.function(eager)(x), rtol=1e-12, atol=1e-12)
    assert len(graphs) == 1
    assert ops_in(graphs[0]) == ({case.op} if case.op else set())
    for (name, a), b in zip(
        compiled.state_dict().items(), eager.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(a, b, msg=name)


@every_case
def test_compiled_gradients(case: Case) -> None:
    eager, compiled = case.layer(), case.layer()
    compiled.load_state_dict(eager.state_dict())
    dy, results = case.input(), []
    args = case.arguments(case.input())
    for layer, f in (
        (eager, eager),
        (compiled, torch.compile(compiled, fullgraph=True, backend="aot_eager")),
    ):
        leaves = [t.clone().requires_grad_(t.is_floating_point()) for t in args]
        f(*leaves).backward(dy)
        given = [t.grad for t in leaves if t.is_floating_point()]
        results.append([*given, *(p.grad for p in layer.parameters())])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", FIRST_OF_OP.values(), ids=FIRST_OF_OP)
def test_functional_transforms_inside_a_compiled_region(case: Case) -> None:
    f = case.function(case.layer())
    x = case.input()

    def gradient(t: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda u: f(u).pow(3).sum())(t)

    compiled = torch.compile(gradient, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), gradient(x))


@stateless_case
def test_a_new_batch_size_needs_no_new_graph_twice(case: Case) -> None:
    count = 0

    def counting(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        nonlocal count
        count += 1
        return graph

    layer = case.layer()
    f = torch.compile(layer, fullgraph=True, backend=counting, dynamic=True)
    for batch in (11, 12, 13):  # no size that another axis has
        args = case.arguments(torch.randn(batch, *case.shape[1:], dtype=torch.float64))
        torch.testing.assert_close(f(*args), layer(*args), rtol=1e-12, atol=1e-12)
    assert count == 1


@every_case
def test_exports_as_one_op_that_survives_saving(case: Case) -> None:
    # pytorch#32282, #86580: decomposed exports round eps to 0 in half precision; ours is one op
    # with eps as a float.
    layer = case.layer()
    args = case.arguments(case.input())
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    program = torch.export.export(layer, args)
    assert ops_in(program.graph_module) == ({case.op} if case.op else set())
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    again = torch.export.load(file).module()
    layer.load_state_dict(before)
    torch.testing.assert_close(again(*args), layer(*args), rtol=1e-12, atol=1e-12)


@stateless_case
def test_exports_with_a_dynamic_batch(case: Case) -> None:
    layer = case.layer()
    args = case.arguments(case.input())
    batch = Dim("batch", min=2, max=64)
    shapes = tuple({0: batch} if len(t) == case.shape[0] else {} for t in args)
    program = torch.export.export(layer, args, dynamic_shapes=shapes)
    args = case.arguments(torch.randn(7, *case.shape[1:], dtype=torch.float64))
    torch.testing.assert_close(program.module()(*args), layer(*args), rtol=1e-12, atol=1e-12)


def gating(place: str, rounding: str) -> tuple[object, ...]:
    """Options of gated_rms_norm."""
    return (1, 1e-6, "inside", "silu", place, 2, False, rounding)


def op_inputs(dtype: torch.dtype) -> list[tuple[str, tuple[object, ...]]]:
    """Arguments of each custom op, with and without its optional tensors, in both layouts."""

    def leaf(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=dtype).requires_grad_()

    image = torch.randn(2, 3, 4, 5, dtype=dtype).contiguous(memory_format=torch.channels_last)
    valid = torch.rand(2, 4, 5) > 0.3
    mean, var = torch.randn(3), torch.rand(3) + 0.5
    return [
        ("layer_norm", (leaf(2, 5), leaf(5), leaf(5), 1, 1e-5, "inside", False)),
        ("layer_norm", (leaf(2, 5, 2), None, None, 2, 0.1, "outside", True)),
        ("rms_norm", (leaf(2, 5), leaf(5), None, 1, 1e-5, "inside", False, "once", "input", 2)),
        ("rms_norm", (leaf(0, 5), None, None, 1, 0.1, "clamp", False, "once", "input", None)),
        ("batch_norm", (leaf(4, 3), leaf(3), leaf(3), None, 1, 1e-5)),
        ("batch_norm", (image.requires_grad_(), leaf(3), None, valid, 1, 1e-5)),
        ("batch_norm_given", (leaf(4, 3), leaf(3), leaf(3), mean, var, None, 1, 1e-5)),
        ("batch_norm_given", (image, None, None, mean, var, valid, 1, 1e-5)),
        ("group_norm", (leaf(2, 4, 3), leaf(4), leaf(4), None, 2, 1e-5)),
        ("group_norm", (image.requires_grad_(), leaf(3), None, valid, 3, 0.1)),
        ("channel_layer_norm", (image.requires_grad_(), leaf(3), leaf(3), 1, 1e-6, "clamp", True)),
        ("scale_norm", (leaf(2, 5), leaf(1), 1, 1e-5, "clamp", False)),
        ("dynamic_tanh", (leaf(2, 5), leaf(1), leaf(5), None, 1)),
        ("dynamic_erf", (leaf(2, 5, 2), leaf(1), leaf(1), None, leaf(5, 2), 2)),
        ("gated_rms_norm", (leaf(2, 4), leaf(2, 4), leaf(4), leaf(4), *gating("after", "once"))),
        ("gated_rms_norm", (leaf(2, 4), leaf(4), None, None, *gating("before", "before_gain"))),
        ("adaptive_layer_norm", (leaf(2, 3, 5), leaf(2, 1, 5), leaf(5), 1, 1e-6, "inside")),
        ("adaptive_rms_norm", (leaf(2, 5), leaf(2, 5), None, 1, 0.1, "inside")),
        ("power_norm", (leaf(4, 3), leaf(3), leaf(3), *passes(3), None, 1, 1e-5, 1, 0.1, 9)),
        ("power_norm", (image, None, None, *passes(0), valid, 1, 0.1, None, 0.1, 0)),
        ("power_norm_given", (image, leaf(3), None, var, valid, 1, 1e-5, 3)),
    ]


def passes(step: int) -> tuple[object, ...]:
    """Running statistics of PowerNorm over 3 channels, how many steps there were, no memory."""
    return torch.rand(3) + 0.5, torch.randn(3), torch.tensor(step), None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("number", range(len(op_inputs(torch.float32))))
def test_opcheck(number: int, dtype: torch.dtype) -> None:
    name, args = op_inputs(dtype)[number]
    torch.library.opcheck(getattr(torch.ops.normkit, name).default, args)
