"""The state that all code in a process shares: random generators and torch's global flags."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, kw_only=True)
class Dial:
    """One piece of global state: how to read it, how to set it, how to compare it.

    Attributes:
        name: what people call it.
        read: returns the state, or None where there is none here.
        write: sets it.
        key: turns a state into something that ``==`` compares.
        shown: whether the values mean something to a reader.
    """

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    key: Callable[[Any], object] = lambda state: state
    shown: bool = False


def cuda_states() -> list[torch.Tensor] | None:
    """Read the generator of every CUDA device, unless CUDA has not been started."""
    started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.cuda.get_rng_state_all() if started else None


def _numpy_state() -> tuple[Any, ...] | None:
    """Read numpy's global generator, unless nobody has loaded numpy."""
    numpy = sys.modules.get("numpy")
    return None if numpy is None else numpy.random.get_state()


DIALS = (
    Dial(
        name="torch's random state on the CPU",
        read=torch.get_rng_state,
        write=torch.set_rng_state,
        key=lambda state: bytes(state.tolist()),
    ),
    Dial(
        name="torch's random state on CUDA",
        read=cuda_states,
        write=lambda states: torch.cuda.set_rng_state_all(states),
        key=lambda states: [bytes(state.tolist()) for state in states],
    ),
    Dial(name="Python's random state", read=random.getstate, write=random.setstate),
    Dial(
        name="numpy's random state",
        read=_numpy_state,
        write=lambda state: sys.modules["numpy"].random.set_state(state),
        key=lambda state: (state[0], state[1].tobytes(), *state[2:]),
    ),
    Dial(
        name="grad mode",
        read=torch.is_grad_enabled,
        write=torch.set_grad_enabled,
        shown=True,
    ),
    Dial(
        name="the default dtype",
        read=torch.get_default_dtype,
        write=torch.set_default_dtype,
        shown=True,
    ),
    Dial(
        name="torch's deterministic debug mode",
        read=torch.get_deterministic_debug_mode,
        write=torch.set_deterministic_debug_mode,
        shown=True,
    ),
    Dial(
        name="the fast path of torch's encoder layers",
        read=torch.backends.mha.get_fastpath_enabled,
        write=torch.backends.mha.set_fastpath_enabled,
        shown=True,
    ),
)


@dataclass(frozen=True, kw_only=True)
class ProcessState:
    """Every dial as it stood."""

    values: tuple[Any, ...]

    @classmethod
    def take(cls) -> ProcessState:
        """Read every dial; reading changes none."""
        return cls(values=tuple(dial.read() for dial in DIALS))

    def differences(self) -> Iterator[str]:
        """Say which dials moved; one that did not exist when read, or does not now, is left out."""
        for dial, before, now in self._moved():
            values = f" was {before}, is {now}" if dial.shown else " changed"
            yield f"{dial.name}{values}."

    def restore(self) -> None:
        """Turn back the dials that moved."""
        for dial, before, _ in self._moved():
            dial.write(before)

    def _moved(self) -> Iterator[tuple[Dial, Any, Any]]:
        for dial, before in zip(DIALS, self.values, strict=True):
            now = dial.read()
            if before is not None and now is not None and dial.key(before) != dial.key(now):
                yield dial, before, now
