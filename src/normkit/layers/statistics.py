"""Running statistics: buffers that never fall below float32, and the step that moves them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from normkit import functional, ops
from normkit.errors import ShapeError, StateError, sentence

RUNNING = ("running_mean", "running_var")


class RunningStatistics(nn.Module):
    """Mixin for layers with ``running_mean``, ``running_var`` and ``num_batches_tracked``.

    ``.half()`` and ``.to(torch.bfloat16)`` leave the two statistics in float32: a variance above
    65504 would become infinite in float16 (and the layer's output zero or NaN).
    """

    weight: Any  # a Parameter or None; torch's own layers declare it more narrowly
    bias: Any
    eps: float
    momentum: float | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    function = "batch_norm"  # the stateless form, named where running statistics are refused

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        with kept_wide(self, RUNNING):
            return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batch seen."""
        if self.running_mean is not None and self.running_var is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, statistics as new."""
        self.reset_running_stats()
        if self.weight is not None:
            nn.init.ones_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def normalised(self, x: Tensor, channel_axis: int, valid: Tensor | None = None) -> Tensor:
        """Run batch_norm, and in training write the new running statistics."""
        batch = self.training or self.running_mean is None
        if self.training and self.running_mean is not None:
            self._refuse_functional()
        out = functional.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            batch,
            self._factor(),
            self.eps,
            channel_axis=channel_axis,
            valid=valid,
        )
        if self.training and out.positions is not None:
            self._write(out)
        return out.y

    def _factor(self) -> float | Tensor:
        """Weight of the new value: momentum, or 1 / batches seen for the cumulative mean."""
        if self.momentum is not None:
            return self.momentum
        if self.num_batches_tracked is None:
            return 0.0
        return 1.0 / (self.num_batches_tracked + 1).to(ops.compute_dtype(self.num_batches_tracked))

    def _write(self, out: functional.BatchNormOutput) -> None:
        """Store the new statistics. A batch without a real position leaves everything."""
        self.store(out.running_mean, out.running_var)
        if self.num_batches_tracked is not None and out.positions is not None:
            self.num_batches_tracked.add_((out.positions > 0).to(torch.int64))

    def store(self, running_mean: Tensor | None, running_var: Tensor | None) -> None:
        """Write new running statistics into the buffers, where there are any."""
        for buffer, new in ((self.running_mean, running_mean), (self.running_var, running_var)):
            if buffer is not None and new is not None:
                buffer.copy_(new)

    def _refuse_functional(self) -> None:
        if ops.situation() is ops.Situation.FUNCTIONAL:
            rule = (
                "running statistics cannot be written inside torch.func or forward-mode transforms"
            )
            function = f"normkit.functional.{self.function}"
            fix = f"Call {function}, which returns the new ones, or .eval() first"
            who = type(self).__name__
            raise StateError(sentence(who, rule, "the layer is in training mode", fix))


@contextlib.contextmanager
def kept_wide(module: nn.Module, names: tuple[str, ...]) -> Iterator[None]:
    """Put buffers back that a cast would bring below float32."""
    before = {name: module._buffers[name] for name in names}
    yield
    for name, old in before.items():
        new = module._buffers[name]
        if old is not None and new is not None and torch.finfo(new.dtype).bits < 32:
            module._buffers[name] = widened(old.to(new.device))


def check_features(layer: nn.Module, x: Tensor, features: int, axis: int) -> None:
    """Check that the channel axis of x, where there is one, holds the channels of the layer."""
    if -x.dim() <= axis < x.dim() and x.shape[axis] != features:
        rule = f"axis {axis} of x must hold the {features} channels"
        came = f"x is {tuple(x.shape)}"
        raise ShapeError(sentence(type(layer).__name__, rule, came, "channel_axis names it"))


def widened(statistic: Tensor) -> Tensor:
    """At least float32."""
    return statistic.to(torch.promote_types(statistic.dtype, torch.float32))


def widen_buffers(module: nn.Module) -> None:
    """Bring the running statistics of a new module to at least float32."""
    for name in RUNNING:
        buffer = module._buffers[name]
        if buffer is not None:
            module._buffers[name] = widened(buffer)
