"""Time inside the norms of a model: counted on a clock that only the layers move."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import normkit
from normkit.benchmark import time_model
from normkit.benchmark.model_share import Half, checked, load, train_step
from normkit.benchmark.norm_clock import NormClock, NormTime
from normkit.benchmark.norm_swap import is_norm, ours_for, swap_norms
from normkit.errors import DataError
from normkit.measure.time import Timing
from tests.benchmark.test_peers import LlamaRMSNorm


class World:
    """A clock that stands still unless a layer takes its time."""

    def __init__(self) -> None:
        self.us = 0.0

    def now(self) -> float:
        """Microseconds."""
        return self.us


class Taking(torch.autograd.Function):
    """The identity, which takes time both ways."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, layer: Any) -> Tensor:
        ctx.layer = layer
        layer.world.us += layer.forward_us
        return x * weight

    @staticmethod
    def backward(ctx: Any, *dy: Tensor) -> tuple[Tensor, Tensor, None]:
        ctx.layer.world.us += ctx.layer.backward_us
        return dy[0], dy[0].sum(), None


class SlowNorm(nn.Module):
    """A layer that takes known times."""

    def __init__(self, world: World, forward_us: float, backward_us: float) -> None:
        super().__init__()
        self.world, self.forward_us, self.backward_us = world, forward_us, backward_us
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        """The identity."""
        return Taking.apply(x, self.weight, self)  # type: ignore[no-any-return, no-untyped-call]


class SlowOther(SlowNorm):
    """The same, and no norm by its name."""


class Branches(nn.Module):
    """Two branches with a norm each, and other layers that take time around and beside them."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.left, self.right = SlowNorm(world, 3, 5), SlowNorm(world, 7, 11)
        self.before, self.beside = SlowOther(world, 100, 1000), SlowOther(world, 200, 2000)

    def forward(self, x: Tensor) -> Tensor:
        """Both branches of one input, the right one twice."""
        h = self.before(x)
        return self.left(h) + self.beside(self.right(self.right(h))) + h


def test_only_norms_are_counted() -> None:
    """Exactly what each took, forward and backward; two calls together."""
    world = World()
    model = Branches(world)
    with NormClock(model, is_norm, now=world.now) as clock:
        model(torch.ones(2, requires_grad=True)).sum().backward()
    assert {n: (t.forward_us, t.backward_us, t.kind) for n, t in clock.times().items()} == {
        "left": (3, 5, "SlowNorm"),
        "right": (14, 22, "SlowNorm"),
    }


def test_values_and_gradients_are_left_alone() -> None:
    """The same with the clock as without, and no trace of it after."""
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 1))
    x = torch.randn(3, 4)
    model(x).sum().backward()
    plain = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    with NormClock(model, is_norm) as clock:
        y = model(x)
        y.sum().backward()
    assert torch.equal(y, model(x))
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), plain, strict=True))  # type: ignore[arg-type]
    assert "forward" not in model[1].__dict__
    assert clock.times()["1"].forward_us > 0


def test_a_forward_that_someone_else_replaced_comes_back() -> None:
    """It is called inside, and stands there again after."""
    model = nn.Sequential(nn.LayerNorm(4))
    model[0].forward = other = lambda x: x + 1  # type: ignore[method-assign, assignment]
    with NormClock(model, is_norm):
        assert torch.equal(model(torch.zeros(1, 4)), torch.ones(1, 4))
    assert model[0].forward is other


def test_input_by_name_tuples_and_inputs_without_a_gradient() -> None:
    """What models do with their norms."""

    class PairNorm(nn.Module):
        def forward(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
            return x * 2, residual

    model = nn.Sequential(PairNorm())
    with NormClock(model, is_norm) as clock:
        y, residual = model[0](x=torch.ones(2, requires_grad=True), residual=torch.ones(2))
        y.sum().backward()
        assert residual.tolist() == [1, 1]
        model[0](torch.ones(2), torch.ones(2))
    assert clock.times()["0"].backward_us > 0


def test_a_norm_inside_a_norm_is_part_of_it() -> None:
    """Not counted twice."""

    class OuterNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.LayerNorm(4)

    clock = NormClock(nn.Sequential(OuterNorm()), is_norm)
    assert list(clock.times()) == ["0"]


def test_amdahl() -> None:
    """A quarter of the step in norms: 4/3 at most."""
    norms = [NormTime(name=str(n), kind="N", forward_us=5, backward_us=7.5) for n in range(2)]
    half = Half(step=Timing(times_us=(90.0, 100.0, 110.0)), norms=norms)
    assert (half.norms_us, half.share) == (25, 0.25)
    assert half.ceiling == pytest.approx(4 / 3)


class GemmaRMSNorm(nn.Module):
    """What transformers has under this name: 1 + weight, rounded once."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))
        self.eps = 1e-6

    def forward(self, x: Tensor) -> Tensor:
        """RMSNorm."""
        h = x.float()
        h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + self.eps)
        return (h * (1 + self.weight.float())).type_as(x)


class OddRMSNorm(GemmaRMSNorm):
    """Something else with the same parameters."""

    def forward(self, x: Tensor) -> Tensor:
        """RMSNorm over the wrong axis."""
        return x * torch.rsqrt(x.square().mean(0, keepdim=True) + self.eps) * self.weight


class GatedRMSNorm(GemmaRMSNorm):
    """Wants more than x."""

    def forward(self, x: Tensor, gate: Tensor) -> Tensor:  # type: ignore[override]
        """RMSNorm with a gate."""
        return super().forward(x) * gate


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_which_norms_are_swapped(dtype: torch.dtype) -> None:
    """torch's own and look-alikes that compute what ours computes; parameters are shared."""
    model = nn.Sequential(
        nn.LayerNorm(8, 1e-3), nn.RMSNorm(8), LlamaRMSNorm(8, 1e-6), GemmaRMSNorm(8),
        OddRMSNorm(8), GatedRMSNorm(8), normkit.RMSNorm(8), nn.BatchNorm1d(8),
        nn.LayerNorm(8, bias=False),
    ).to(dtype)  # fmt: skip
    before = list(model)
    assert swap_norms(model) == ["0", "1", "2", "3", "8"]
    x = torch.randn(5, 8).to(dtype)
    for number in (0, 1, 2, 3, 8):
        assert type(model[number]) in (normkit.LayerNorm, normkit.RMSNorm)
        old, new = before[number], model[number]
        assert all(new.get_parameter(n) is p for n, p in old.named_parameters())
        torch.testing.assert_close(new(x), old(x))
    if dtype == torch.bfloat16:  # in float32 the conventions differ by less than the kernels do
        assert model[2].rounding == "before_gain"
    assert model[3].zero_centred
    assert torch.equal(model[3].weight, torch.zeros(8, dtype=dtype))  # drawn to compare, put back


def test_a_subclass_is_not_torchs() -> None:
    """It may compute anything."""

    class MyLayerNorm(nn.LayerNorm):
        pass

    assert ours_for(MyLayerNorm(4)) is None
    assert is_norm(MyLayerNorm(4))
    assert not is_norm(nn.Linear(4, 4))


MODEL = """
import torch
from torch import nn
def build():
    return nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.BatchNorm1d(4)), torch.randn(3, 4)
def plain():
    return nn.Linear(4, 4), torch.randn(3, 4)
def wrong():
    return 3
def number():
    return 3, 4
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with functions that build."""
    path = tmp_path / "my_model.py"
    path.write_text(MODEL)
    return path


def test_a_model_before_and_after(file: Path) -> None:
    """Every norm on both sides, the swapped one and the other."""
    found = time_model(f"{file}:build", steps=3)
    for half, kinds in (
        (found.before, ["LayerNorm", "BatchNorm1d"]),
        (found.after, ["LayerNorm", "BatchNorm1d"]),
    ):
        assert [norm.name for norm in half.norms] == ["1", "2"]
        assert [norm.kind for norm in half.norms] == kinds
        assert all(norm.forward_us > 0 and norm.backward_us > 0 for norm in half.norms)
        assert len(half.step.times_us) == 3
    assert (found.swapped, found.left) == (["1"], ["2"])


def test_wrong_places(file: Path) -> None:
    """Each is a sentence."""
    rule = "bench: model must be a Python file and a function, with a colon between"
    shape = "bench: build() must return (model, inputs) or (model, inputs, step)"
    for place, text in {
        "gone.py:build": f"{rule}; there is no file 'gone.py'. Try --model FILE.py:build.",
        "build": f"{rule}; model is 'build'. Try --model FILE.py:build.",
        f"{file}:gone": "bench: my_model.py must have a function gone; it has none.",
        f"{file}:plain": "bench: the model must have norms; Linear has none.",
        f"{file}:wrong": f"{shape}; it returned int.",
        f"{file}:number": f"{shape}; its first value is int.",
    }.items():
        with pytest.raises(DataError) as caught:
            time_model(place)
        assert str(caught.value) == text


def test_steps(file: Path) -> None:
    """One of the file's own is taken; ours goes forward and backward by tensor, tuple or dict."""
    assert load(f"{file}:build")[2] is train_step
    own = lambda model, inputs: None  # noqa: E731
    assert checked((nn.Linear(1, 1), None, own))[2] is own

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(()))
            self.seen: list[float] = []

        def forward(self, a: Tensor, b: Tensor | None = None) -> Any:
            loss = self.w * a.sum()
            return type("Output", (), {"loss": loss})() if b is not None else {"y": loss}

        def zero_grad(self, set_to_none: bool = True) -> None:
            assert self.w.grad is not None
            self.seen.append(float(self.w.grad))
            super().zero_grad(set_to_none)

    model, x = Model(), torch.full((2,), 3.0)
    for inputs in (x, (x,), {"a": x}, [x, x]):
        train_step(model, inputs)
    assert model.w.grad is None
    assert model.seen == [72.0, 72.0, 72.0, 6.0]
