"""Float64 noise: its size where it is known, determinism, and what it leaves alone."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from normkit.errors import OptionError, ShapeError
from normkit.measure import float64_noise, ulp


def test_noise_of_the_identity_is_one_ulp() -> None:
    x = torch.full((64,), 3.0)
    assert float64_noise(lambda t: t, x) == ulp(torch.tensor(3.0).double(), torch.float64).item()


def test_noise_moves_both_ways_and_stays_within_one_ulp() -> None:
    seen: list[Tensor] = []
    float64_noise(lambda t: seen.append(t) or t, torch.ones(64), draws=3)
    steps = {round(s) for t in seen[1:] for s in ((t - 1) / 2.0**-53).tolist()}
    assert steps == {-1, 0, 2}  # below 1 the gap is half of that above
    assert torch.equal(seen[0], torch.ones(64).double())


def test_noise_is_magnified_by_cancellation() -> None:
    x = 1e6 + torch.randn(8, 16, dtype=torch.float64)

    def spread(t: Tensor) -> Tensor:
        return (t - t.mean(-1, keepdim=True)).square().mean(-1)

    def one_pass(t: Tensor) -> Tensor:
        return t.square().mean(-1) - t.mean(-1).square()

    assert float64_noise(spread, x) < 1e-8 < float64_noise(one_pass, x)


def test_noise_sees_every_output_of_a_nest() -> None:
    def nested(t: Tensor) -> dict[str, object]:
        return {"small": t, "more": [(1e6 * t,), "text", None, 3]}

    x = torch.ones(32)
    alone = float64_noise(lambda t: 1e6 * t, x)
    assert float64_noise(nested, x) == alone > 0


def test_noise_moves_every_floating_input_of_a_nest_and_no_other() -> None:
    def use(numbers: dict[str, Tensor], index: Tensor) -> Tensor:
        assert index.dtype == torch.int64
        return numbers["a"][index]

    index = torch.tensor([1])
    assert float64_noise(use, {"a": torch.ones(2)}, index, draws=16) > 0
    assert float64_noise(lambda i: i, index) == 0.0


def test_inputs_arrive_in_float64_and_stay_as_they_were() -> None:
    x = torch.ones(4, dtype=torch.bfloat16)

    def in_place(t: Tensor) -> Tensor:
        assert t.dtype == torch.float64
        return t.mul_(2)

    assert float64_noise(in_place, x) > 0
    assert torch.equal(x, torch.ones(4, dtype=torch.bfloat16))


def test_gradients_can_be_asked_for_inside() -> None:
    def gradient(t: Tensor) -> Tensor:
        return torch.autograd.grad(t.pow(3).sum(), t)[0]

    assert 0 < float64_noise(gradient, torch.ones(8, requires_grad=True)) < 1e-14


def test_same_seed_same_number_other_seed_other_moves() -> None:
    x = torch.randn(16)
    numbers = [float64_noise(torch.sum, x, seed=seed, draws=1) for seed in (0, 0, 1, 2, 3, 4)]
    assert numbers[0] == numbers[1]
    assert len(set(numbers)) > 1


def test_more_draws_never_find_less() -> None:
    x = torch.randn(16)
    found = [float64_noise(torch.sum, x, draws=draws) for draws in (1, 2, 4, 8)]
    assert found == sorted(found)


def test_the_global_random_state_is_left_untouched_and_every_call_sees_the_same() -> None:
    before = torch.get_rng_state()

    def random_mask(t: Tensor) -> Tensor:
        return torch.nn.functional.dropout(t, 0.5)

    assert float64_noise(random_mask, torch.ones(64)) < 1e-15
    assert torch.equal(torch.get_rng_state(), before)


def test_the_random_state_is_wound_back_when_fn_raises() -> None:
    before = torch.get_rng_state()

    def broken(t: Tensor) -> Tensor:
        torch.rand(3)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        float64_noise(broken, torch.ones(2))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_same_value_that_is_not_finite_is_no_change(value: float) -> None:
    assert float64_noise(lambda t: t * 0 + value, torch.ones(4)) == 0.0


def test_a_value_that_turns_nan_is_an_infinite_change() -> None:
    def edge(t: Tensor) -> Tensor:
        return torch.where(t == 1, t, torch.nan)

    assert float64_noise(edge, torch.ones(32)) == math.inf


def test_no_tensors_no_noise() -> None:
    assert float64_noise(lambda: 3) == 0.0
    assert float64_noise(lambda t: t, torch.empty(0)) == 0.0


def test_bad_calls_get_a_sentence() -> None:
    with pytest.raises(OptionError) as caught:
        float64_noise(torch.exp, torch.ones(1), draws=0)
    assert str(caught.value) == "float64_noise: draws must be at least 1; it is 0."
    with pytest.raises(ShapeError) as shapes:
        float64_noise(lambda t: t[t == 1], torch.ones(32))
    assert str(shapes.value).startswith(
        "float64_noise: fn must return the same shapes every time; it gave (32,), then ("
    )
