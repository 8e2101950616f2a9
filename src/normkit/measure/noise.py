"""Float64 noise: the level below which two float64 results differ by rounding alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from normkit.errors import OptionError, ShapeError, sentence
from normkit.measure.nest import map_tensors, tensors
from normkit.measure.process_state import cuda_states


def float64_noise(fn: Callable[..., Any], *inputs: Any, seed: int = 0, draws: int = 4) -> float:
    """Largest change of any output of ``fn`` when its inputs move by one ulp of float64 at random.

    ``max over draws of max|fn(inputs + e) - fn(inputs)|``, each element of e being -1, 0 or +1
    ulp of its input. Floating inputs enter as float64 copies; others enter as they are. Two ways
    of computing fn that differ by much more than this differ in their algebra. An input whose
    value the outputs do not depend on gives 0, and so does a fn that only compares.

    The same seed gives the same number. The global random state is left untouched, and each call
    of ``fn`` starts from the same one, so dropout inside draws the same mask every time.

    Args:
        fn: takes tensors, or nested tuples, lists and dicts of them; returns the same.
        inputs: what fn is called with.
        seed: of the random moves.
        draws: how many moves are tried, at least 1.

    Raises:
        OptionError: ``draws`` is below 1.
        ShapeError: ``fn`` returns other shapes from one call to the next.

    Example:
        >>> 0 < float64_noise(torch.exp, torch.ones(3)) < 1e-14
        True
    """
    if draws < 1:
        raise OptionError(sentence("float64_noise", "draws must be at least 1", f"it is {draws}"))
    generator = torch.Generator().manual_seed(seed)
    with _same_randomness() as again:
        still = _outputs(fn, map_tensors(_widen, inputs))
        worst = 0.0
        for _ in range(draws):
            again()
            moved = _outputs(fn, map_tensors(lambda t: _nudge(t, generator), inputs))
            worst = max(worst, _largest_change(still, moved))
    return worst


def _outputs(fn: Callable[..., Any], inputs: tuple[Any, ...]) -> list[Tensor]:
    return [t.detach().double() for t in tensors(fn(*inputs))]


def _widen(value: Tensor) -> Tensor:
    if not value.is_floating_point():
        return value.clone()
    return value.detach().to(torch.float64, copy=True).requires_grad_(value.requires_grad)


def _nudge(value: Tensor, generator: torch.Generator) -> Tensor:
    if not value.is_floating_point():
        return value.clone()
    wide = value.detach().to(torch.float64)
    step = torch.randint(-1, 2, value.shape, generator=generator).to(value.device)
    toward = torch.where(step == 0, wide, step * torch.inf)
    return torch.nextafter(wide, toward).requires_grad_(value.requires_grad)


def _largest_change(still: list[Tensor], moved: list[Tensor]) -> float:
    if [t.shape for t in still] != [t.shape for t in moved]:
        rule = "fn must return the same shapes every time"
        came = f"it gave {_shapes(still)}, then {_shapes(moved)}"
        raise ShapeError(sentence("float64_noise", rule, came))
    return max((_change(a, b) for a, b in zip(still, moved, strict=True)), default=0.0)


def _change(still: Tensor, moved: Tensor) -> float:
    """Largest difference; NaN or infinity counts as unchanged where both have the same."""
    if still.numel() == 0:
        return 0.0
    same = (still == moved) | (still.isnan() & moved.isnan())
    difference = torch.where(same, 0.0, (still - moved).abs())
    largest = difference.max().item()
    return math.inf if math.isnan(largest) else largest


def _shapes(outputs: list[Tensor]) -> str:
    return ", ".join(str(tuple(t.shape)) for t in outputs) or "nothing"


@contextmanager
def _same_randomness() -> Iterator[Callable[[], None]]:
    """Yield a function that winds the random state back; wind back at the end as well."""
    cpu, cuda = torch.get_rng_state(), cuda_states()

    def again() -> None:
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)

    try:
        yield again
    finally:
        again()
