"""BatchNorm1d/2d/3d, drop-in, and MaskedBatchNorm, which sees real positions only."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from normkit.errors import ShapeError, StateError, sentence
from normkit.layers.fast_path import keep_called
from normkit.layers.parameters import register_parameters, weight_and_bias
from normkit.layers.statistics import RunningStatistics, check_features, widen_buffers
from normkit.layers.valid import current_valid


class _BatchNorm(RunningStatistics):
    """What the three share: checks with sentences, statistics in float32 or better."""

    dims: tuple[int, ...]
    layouts: str

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        args = (num_features, eps, momentum, affine, track_running_stats, device, dtype)
        super().__init__(*args)
        if not bias:  # torch 2.10 has no such argument
            self.register_parameter("bias", None)
        widen_buffers(self)
        keep_called(self)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (torch's name)
        """Normalise; see the class for shapes."""
        self._check_input_dim(input)
        if self.training or self.running_mean is None:
            self._check_positions(input)
        return self.normalised(input, 1)

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002 (torch's name)
        who = type(self).__name__
        if input.dim() not in self.dims:
            shape = tuple(input.shape)
            raise ShapeError(sentence(who, f"x must be {self.layouts}", f"x is {shape}"))
        if input.shape[1] != self.num_features:
            shape, features = tuple(input.shape), self.num_features
            rule = f"axis 1 of x must hold the {features} channels"
            fix = "Try x.transpose(1, -1)" if input.shape[-1] == features else ""
            raise ShapeError(sentence(who, rule, f"x is {shape}", fix))

    def _check_positions(self, x: Tensor) -> None:
        if x.numel() != x.shape[1]:
            return
        rule = "training needs more than one value per channel"
        fix = "Use larger batches (drop_last=True in the loader), .eval(), or a LayerNorm"
        came = f"x of shape {tuple(x.shape)} has one"
        raise StateError(sentence(type(self).__name__, rule, came, fix))


class BatchNorm1d(_BatchNorm, nn.BatchNorm1d):
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` for each channel.

    A drop-in for ``torch.nn.BatchNorm1d``: same signature, parameters, buffers, state_dict, repr.
    Training uses the mean and the 1/n variance of the batch and moves the running ones by
    ``momentum`` (None: cumulative mean; the running variance with 1/(n - 1)); evaluation uses the
    running ones. They stay float32 under ``.half()``.

    Shape:
        x (B, C) or (B, C, T), any floating dtype -> y of the same shape and dtype, also under
        autocast. Tokens (B, T, C) need a transpose, or MaskedBatchNorm.

    Raises:
        ShapeError: another shape.
        StateError: one value per channel in training; running statistics under torch.func in
            training.

    Source: Ioffe and Szegedy 2015, arXiv:1502.03167.

    Example:
        >>> BatchNorm1d(1)(torch.tensor([[1.0], [3.0]])).flatten().tolist()
        [-0.9999949932098389, 0.9999949932098389]
    """

    dims = (2, 3)
    layouts = "(B, C) or (B, C, T)"


class BatchNorm2d(_BatchNorm, nn.BatchNorm2d):
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` for each channel of images.

    A drop-in for ``torch.nn.BatchNorm2d``; see :class:`BatchNorm1d`. The memory format of x is
    kept and never changes values.

    Shape:
        x (B, C, H, W) -> y of the same shape and dtype.

    Raises:
        ShapeError, StateError: as in :class:`BatchNorm1d`.

    Source: Ioffe and Szegedy 2015, arXiv:1502.03167.

    Example:
        >>> BatchNorm2d(3)(torch.randn(2, 3, 4, 4)).shape
        torch.Size([2, 3, 4, 4])
    """

    dims = (4,)
    layouts = "(B, C, H, W)"


class BatchNorm3d(_BatchNorm, nn.BatchNorm3d):
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` for each channel of volumes.

    A drop-in for ``torch.nn.BatchNorm3d``; see :class:`BatchNorm1d`.

    Shape:
        x (B, C, D, H, W) -> y of the same shape and dtype.

    Raises:
        ShapeError, StateError: as in :class:`BatchNorm1d`.

    Source: Ioffe and Szegedy 2015, arXiv:1502.03167.

    Example:
        >>> BatchNorm3d(3)(torch.randn(2, 3, 4, 4, 4)).shape
        torch.Size([2, 3, 4, 4, 4])
    """

    dims = (5,)
    layouts = "(B, C, D, H, W)"


class MaskedBatchNorm(RunningStatistics):
    """BatchNorm whose statistics, running buffers and gradients see real positions only.

    ``y = (x - mean) / sqrt(var + eps) * weight + bias`` with mean and 1/n variance over the n
    real positions; other positions give 0 and get no gradient. With one real position y there is
    the bias, and the running variance stays; with none, nothing changes. Not a ``_BatchNorm``:
    code that looks for those would feed it without a mask.

    Args:
        num_features: C, size of the channel axis.
        eps: added to the variance.
        momentum: weight of the new value in the running statistics; None: cumulative mean.
        affine: have a weight and a bias.
        track_running_stats: False uses the batch in evaluation too.
        device, dtype: of the parameters; statistics are float32 or better.
        channel_axis: the axis that is not averaged over; -1 for tokens (B, T, C).
        bias: have a bias, where affine.

    Shape:
        x any shape with C at ``channel_axis``; ``valid`` bool (or 0 and 1), True = real, of the
        shape of x without that axis, such as (B, T), or broadcastable to it; None: the mask of
        the ``with normkit.valid(mask):`` around the call, and without one all are real.

    Raises:
        ShapeError, DtypeError: x or valid do not fit.
        StateError: running statistics under torch.func in training; a recomputation without the
            mask of its first forward pass.

    Source: Ioffe and Szegedy 2015, arXiv:1502.03167, over real positions.

    Example:
        >>> norm = MaskedBatchNorm(1)
        >>> x = torch.tensor([[[2.0], [4.0], [4.0], [2.0]], [[2.0], [4.0], [0.0], [0.0]]])
        >>> valid = torch.tensor([[True] * 4, [True, True, False, False]])
        >>> norm(x, valid)[1].flatten().round().tolist()
        [-1.0, 1.0, 0.0, 0.0]
        >>> round(norm.running_mean.item(), 4)  # 0.1 times the mean of the six real values, 3
        0.3
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        channel_axis: int = -1,
        bias: bool = True,
    ) -> None:
        """Create parameters and buffers; see the class for the arguments."""
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.channel_axis = channel_axis
        shapes = weight_and_bias(num_features, weight=affine, bias=bias)
        register_parameters(self, shapes, device, dtype)
        statistics = {
            "running_mean": dtype,
            "running_var": dtype,
            "num_batches_tracked": torch.long,
        }
        for name, kind in statistics.items():
            shape = () if name == "num_batches_tracked" else (num_features,)
            zeros = torch.zeros(shape, device=device, dtype=kind) if track_running_stats else None
            self.register_buffer(name, zeros)
        widen_buffers(self)
        self.reset_parameters()
        keep_called(self)

    def forward(self, x: Tensor, valid: Tensor | None = None) -> Tensor:
        """Normalise the real positions; see the class for shapes."""
        check_features(self, x, self.num_features, self.channel_axis)
        return self.normalised(x, self.channel_axis, current_valid(self, valid))

    def extra_repr(self) -> str:
        """The arguments."""
        names = ("eps", "momentum", "affine", "track_running_stats", "channel_axis")
        return ", ".join([str(self.num_features), *(f"{n}={getattr(self, n)}" for n in names)])
