"""instance_norm on tensors: it returns new running statistics and changes nothing."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from normkit import ops
from normkit.errors import OptionError, sentence
from normkit.functional.group_norm import check_batch_of_channels
from normkit.functional.running import moved, unbiased
from normkit.ops.check import check_options, checked_valid


class InstanceNormOutput(NamedTuple):
    """Result of :func:`instance_norm`; the statistics carry no gradient.

    Attributes:
        y: in the shape, dtype and memory format of x.
        running_mean, running_var: the new ones, (C,); None where none were given.
        positions: how many stand behind the statistics of each sample, (B,) int64; None where
            running ones were used.
    """

    y: Tensor
    running_mean: Tensor | None
    running_var: Tensor | None
    positions: Tensor | None


def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
    *,
    valid: Tensor | None = None,
    impl: str = "auto",
) -> InstanceNormOutput:
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` for each channel of each sample.

    An instance is one channel of one sample; mean and variance (with 1/n) are over its positions.
    Where running statistics are given, the new ones are returned: each is moved towards the mean
    over the batch of the instances' own (the variance with 1/(n - 1)), by ``momentum``.

    Args:
        x: (B, C, *), any floating dtype; its memory format is kept and never changes values.
        running_mean, running_var: (C,), or both None.
        weight, bias: (C,) or None.
        use_input_stats: False uses the running statistics as they are.
        momentum: weight of the new value.
        eps: added to the variance.
        valid: bool (or 0 and 1), True = real, of the shape of x without its channel axis or
            broadcastable to it. Other positions count nowhere, give 0 and get no gradient. In the
            running statistics every sample weighs the same, however many real positions it has;
            one without any is left out, of the variance also one with a single one.
        impl: ``auto``, or the one that must run: ``torch`` or ``cpu``.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Ulyanov, Vedaldi, Lempitsky 2016, arXiv:1607.08022.

    Example:
        >>> x = torch.tensor([[[1.0, 3.0]], [[10.0, 30.0]]])
        >>> y, mean, var, n = instance_norm(x, torch.zeros(1), torch.ones(1))
        >>> y.flatten(), mean, var  # 0.1 * (2 + 20) / 2, and 0.9 + 0.1 * (2 + 200) / 2
        (tensor([-1.0000,  1.0000, -1.0000,  1.0000]), tensor([1.1000]), tensor([11.]))
    """
    who = "instance_norm"
    check_batch_of_channels(who, x, (running_mean, running_var, weight, bias))
    check_options(who, eps, "inside", impl)
    mask = None if valid is None else checked_valid(who, valid, x, 1)
    if (running_mean is None) != (running_var is None):
        rule = "running_mean and running_var come together"
        raise OptionError(sentence(who, rule, "one of them is None"))
    if use_input_stats:
        formula = ops.GroupNormFormula(x.shape[1], float(eps), impl=impl)
        y, mean, var, n = ops.group_norm(formula, x, weight, bias, mask)
        new_mean = _step(running_mean, mean, momentum, n > 0)
        new_var = _step(running_var, unbiased(var, n[:, None]), momentum, n > 1)
        return InstanceNormOutput(y, new_mean, new_var, n)
    if running_mean is None or running_var is None:
        rule = "use_input_stats=False needs running_mean and running_var"
        raise OptionError(sentence(who, rule, "they are None"))
    given = ops.BatchNormGivenFormula(1, float(eps), impl=impl)
    (y,) = ops.batch_norm_given(given, x, weight, bias, running_mean, running_var, mask)
    return InstanceNormOutput(y, running_mean, running_var, None)


def _step(
    old_C: Tensor | None, of_instances_BC: Tensor, momentum: float | Tensor, defined_B: Tensor
) -> Tensor | None:
    """Move towards the mean over the samples whose statistic is defined; stay if none is."""
    count = defined_B.sum()
    counted_BC = torch.where(defined_B[:, None], of_instances_BC, 0)
    return moved(old_C, counted_BC.sum(0) / count.clamp(min=1), momentum, count > 0)
