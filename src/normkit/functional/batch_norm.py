"""batch_norm on tensors: it returns new running statistics and changes nothing."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from normkit import ops
from normkit.errors import OptionError, sentence
from normkit.functional.running import moved, unbiased
from normkit.ops.check import check_options, checked_channels, checked_valid


class BatchNormOutput(NamedTuple):
    """Result of :func:`batch_norm`; the statistics carry no gradient.

    Attributes:
        y: in the shape, dtype and memory format of x.
        running_mean, running_var: the new ones, (C,); None where none were given.
        positions: how many stand behind a channel's statistics, 0-d int64; None in evaluation.
    """

    y: Tensor
    running_mean: Tensor | None
    running_var: Tensor | None
    positions: Tensor | None


def batch_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
    *,
    channel_axis: int = 1,
    valid: Tensor | None = None,
    impl: str = "auto",
) -> BatchNormOutput:
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` for each channel; changes nothing.

    In training the statistics are those of the batch (variance with 1/n), and the new running
    ones are returned: ``(1 - momentum) * old + momentum * new``, the variance with 1/(n - 1).
    In evaluation, or where none are given, the running ones are used as they are.

    Args:
        x: any shape with a channel axis, any floating dtype.
        running_mean, running_var: (C,), or both None: then the batch's are used in evaluation too.
        weight, bias: (C,) or None.
        training: use the statistics of the batch.
        momentum: weight of the new value.
        eps: added to the variance.
        channel_axis: the axis that is not averaged over.
        valid: bool (or 0 and 1), True = real, of the shape of x without its channel axis or
            broadcastable to it. Other positions count nowhere, give 0 and get no gradient. Without
            a real position the running statistics stay; with one, the running variance stays.
        impl: ``auto``, or the one that must run: ``torch`` or ``cpu``.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Ioffe and Szegedy 2015, arXiv:1502.03167.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 10.0], [3.0, 30.0]])
        >>> y, mean, var, n = batch_norm(x, torch.zeros(2), torch.ones(2), training=True)
        >>> mean, var
        (tensor([0.2000, 2.0000]), tensor([ 1.1000, 20.9000]))
    """
    who = "batch_norm"
    axis = checked_channels(who, x, channel_axis, (running_mean, running_var, weight, bias))
    check_options(who, eps, "inside", impl)
    mask = None if valid is None else checked_valid(who, valid, x, axis)
    if (running_mean is None) != (running_var is None):
        rule = "running_mean and running_var come together"
        raise OptionError(sentence(who, rule, "one of them is None"))
    if training or running_mean is None or running_var is None:
        formula = ops.BatchNormFormula(axis, float(eps), impl=impl)
        y, mean, var, n = ops.batch_norm(formula, x, weight, bias, mask)
        new_mean = moved(running_mean, mean, momentum, n > 0)
        new_var = moved(running_var, unbiased(var, n), momentum, n > 1)
        return BatchNormOutput(y, new_mean, new_var, n)
    given = ops.BatchNormGivenFormula(axis, float(eps), impl=impl)
    (y,) = ops.batch_norm_given(given, x, weight, bias, running_mean, running_var, mask)
    return BatchNormOutput(y, running_mean, running_var, None)
