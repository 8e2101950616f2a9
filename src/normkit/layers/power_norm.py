"""PowerNorm: a running root mean square in the forward pass, a running product in the backward."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from normkit import functional
from normkit.layers.fast_path import keep_called
from normkit.layers.parameters import register_parameters, weight_and_bias
from normkit.layers.statistics import check_features, kept_wide, widened
from normkit.layers.valid import current_valid

_STATISTICS = ("running_square", "running_product")


class PowerNorm(nn.Module):
    """``y = x / psi * weight + bias``, psi the running root mean square of each channel.

    First each position of x is divided by its root mean square over groups of channels. In
    training psi is the one from before this batch, and then moves:
    ``psi^2 <- (1 - momentum) * psi^2 + momentum * mean(x^2)``. The backward pass is a rule of its
    own, not the derivative: ``dx = (g - x_hat * nu) / psi``, g the gradient of x_hat, and
    ``nu <- nu * (1 - beta * mean(x_hat^2)) + beta * mean(g * x_hat)`` with
    beta = backward_momentum. Means are over real positions.

    In the first ``warmup`` batches psi is that of the batch itself and the gradient is exact;
    meanwhile psi^2 is the mean over the batches so far, and nu moves. In evaluation psi is the
    running one and the gradient exact.

    Each batch moves the statistics once, also under torch.utils.checkpoint, gradient
    accumulation and repeated backward passes; up to 64 forward passes may wait for their
    backward. Channels whose batch statistic is not finite keep the old one.

    Args:
        num_features: C, size of the channel axis.
        eps: added to every mean square.
        momentum: weight of the new value in psi^2 (1 - alpha_fwd in the paper).
        backward_momentum: weight of the new value in nu (1 - alpha_bkw).
        warmup: how many first batches use their own psi.
        affine: have a weight and a bias.
        device, dtype: of the parameters; statistics are float32 or better.
        groups: groups of neighbouring channels in the scaling that comes first; None leaves it
            out.
        channel_axis: the axis that is not averaged over; -1 for tokens (B, T, C).
        bias: have a bias, where affine.

    Shape:
        x any shape with C at ``channel_axis``, any floating dtype -> y of the same shape and
        dtype. ``valid`` bool (or 0 and 1), True = real, of the shape of x without that axis, such
        as (B, T), or broadcastable to it; None: the mask of the ``with normkit.valid(mask):``
        around the call, and without one all are real. Other positions give 0, get no gradient and
        move nothing.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.
        StateError: training under torch.func; a recomputation without the mask of its first
            forward pass, or of an input that is not the same to the bit.

    Source: Shen et al. 2020, arXiv:2003.07845.

    Example:
        >>> norm = PowerNorm(1, warmup=0, groups=None)  # psi begins at 1
        >>> y = norm(torch.tensor([[[3.0], [5.0], [0.0]]]), torch.tensor([[True, True, False]]))
        >>> y.flatten().round().tolist()
        [3.0, 5.0, 0.0]
        >>> round(norm.running_square.item(), 4)  # 0.9 * 1 + 0.1 * 17
        2.6
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None
    running_square: Tensor
    running_product: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        backward_momentum: float = 0.1,
        warmup: int = 10000,
        affine: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        groups: int | None = 1,
        channel_axis: int = -1,
        bias: bool = True,
    ) -> None:
        """Create parameters and buffers; see the class for the arguments."""
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.backward_momentum = backward_momentum
        self.warmup = warmup
        self.affine = affine
        self.groups = groups
        self.channel_axis = channel_axis
        shapes = weight_and_bias(num_features, weight=affine, bias=bias)
        register_parameters(self, shapes, device, dtype)
        for name in _STATISTICS:
            self.register_buffer(
                name, widened(torch.empty(num_features, device=device, dtype=dtype))
            )
        count = torch.zeros((), device=device, dtype=torch.long)
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()
        self._begin_passes()
        keep_called(self)

    def reset_running_stats(self) -> None:
        """psi 1, nu 0, no batch seen."""
        self.running_square.fill_(1)
        self.running_product.zero_()
        self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, statistics as new."""
        self.reset_running_stats()
        if self.weight is not None:
            nn.init.ones_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """Normalise the real positions; see the class for shapes."""
        check_features(self, x, self.num_features, self.channel_axis)
        out = functional.power_norm(
            x,
            self.running_square,
            self.running_product,
            self.weight,
            self.bias,
            self.training,
            self.momentum,
            self.eps,
            backward_momentum=self.backward_momentum,
            warmup=self.warmup,
            step=self.num_batches_tracked,
            groups=self.groups,
            channel_axis=self.channel_axis,
            valid=current_valid(self, valid),
            passes=self.passes,
        )
        if self.training:
            self.running_square.copy_(out.running_square)
            self.num_batches_tracked.copy_(out.step)
        return out.y

    def extra_repr(self) -> str:
        """The arguments."""
        names = ("eps", "momentum", "backward_momentum", "warmup", "affine", "groups")
        shown = (f"{n}={getattr(self, n)}" for n in (*names, "channel_axis"))
        return ", ".join([str(self.num_features), *shown])

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        with kept_wide(self, _STATISTICS):
            return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def _begin_passes(self) -> None:
        """Remember passes from here on; backward passes write to the buffer that is then there."""
        self.passes = functional.PowerPasses(functools.partial(_product, weakref.ref(self)))

    def __getstate__(self) -> dict[str, Any]:
        """All but the memory of passes."""
        return {name: value for name, value in self.__dict__.items() if name != "passes"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy waits for no backward pass."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._begin_passes()


def _product(layer: weakref.ref[PowerNorm]) -> Tensor | None:
    """The buffer that backward passes move; None when the layer is gone."""
    there = layer()
    return None if there is None else there.running_product
