"""Time that a model spends inside its norms, forward and backward."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

Now = Callable[[], float]


@dataclass(frozen=True, kw_only=True)
class NormTime:
    """Time inside one norm in one step."""

    name: str
    kind: str
    forward_us: float
    backward_us: float


@dataclass
class _Watch:
    """What is known of one module."""

    now: Now
    forward_us: float = 0.0
    backward_us: float = 0.0
    started_us: list[float] = field(default_factory=list)


class NormClock:
    """A context in which the norms of a model are timed.

    Forward: the module's call. Backward: from the moment when the gradient reaches the module's
    output to the moment when it leaves for what came before; gradients of its parameters are
    accumulated in between. Two identities around the module, whose backward reads the clock, mark
    the two moments. The CPU's backward pass runs one node at a time, those of the latest forward
    first, so nothing else runs between them. Where the input needs no gradient nothing leaves, and
    the backward of that norm is not counted.

    Args:
        model: whose norms are timed.
        is_norm: says which modules are norms. A norm inside a norm is part of the outer one.
        now: microseconds since any moment.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
        >>> with NormClock(model, lambda module: isinstance(module, nn.LayerNorm)) as clock:
        ...     model(torch.randn(2, 4)).sum().backward()
        >>> [(t.name, t.kind, t.backward_us > 0) for t in clock.times().values()]
        [('1', 'LayerNorm', True)]
    """

    def __init__(
        self,
        model: nn.Module,
        is_norm: Callable[[nn.Module], bool],
        *,
        now: Now = lambda: time.perf_counter_ns() / 1000,
    ) -> None:
        self.modules: dict[str, nn.Module] = {}
        for name, module in model.named_modules():
            inner = any(name.startswith(f"{outer}.") for outer in self.modules)
            if is_norm(module) and not inner:
                self.modules[name] = module
        self.watches = {name: _Watch(now) for name in self.modules}
        self._own: dict[str, Any] = {}

    def __enter__(self) -> NormClock:
        """Put the clock around every norm."""
        for name, module in self.modules.items():
            self._own[name] = module.__dict__.get("forward")
            module.forward = partial(_timed, self.watches[name], module.forward)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take it away."""
        for name, module in self.modules.items():
            del module.forward  # what the class has shows again
            if self._own[name] is not None:
                module.forward = self._own[name]

    def times(self) -> dict[str, NormTime]:
        """What was measured, by the name of the module."""
        return {
            name: NormTime(
                name=name,
                kind=type(self.modules[name]).__name__,
                forward_us=watch.forward_us,
                backward_us=watch.backward_us,
            )
            for name, watch in self.watches.items()
        }


def _timed(watch: _Watch, forward: Callable[..., Any], *given: Any, **named: Any) -> Any:
    first = None if given else next(iter(named))  # the input may come by name
    x = named[first] if first else given[0]
    watched = torch.is_grad_enabled() and x.requires_grad
    entered = _Enter.apply(x, watch) if watched else x  # type: ignore[no-untyped-call]
    if first:
        named[first] = entered
    else:
        given = (entered, *given[1:])
    start = watch.now()
    y = forward(*given, **named)
    watch.forward_us += watch.now() - start
    if not watched:
        return y
    if isinstance(y, tuple):
        return (_Leave.apply(y[0], watch), *y[1:])  # type: ignore[no-untyped-call]
    return _Leave.apply(y, watch)  # type: ignore[no-untyped-call]


class _Enter(torch.autograd.Function):
    """The identity; its backward is the moment when the gradient has left the module."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, watch: _Watch) -> Tensor:
        """The same values."""
        ctx.watch = watch
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Stop the clock."""
        watch: _Watch = ctx.watch
        if watch.started_us:
            watch.backward_us += watch.now() - watch.started_us.pop()
        return gradients[0], None


class _Leave(torch.autograd.Function):
    """The identity; its backward is the moment when the gradient reaches the module."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, watch: _Watch) -> Tensor:
        """The same values."""
        ctx.watch = watch
        return y.view_as(y)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Start the clock."""
        ctx.watch.started_us.append(ctx.watch.now())
        return gradients[0], None
