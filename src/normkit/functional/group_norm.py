"""group_norm on tensors."""

from __future__ import annotations

from torch import Tensor

from normkit import ops
from normkit.errors import ShapeError, sentence
from normkit.ops.check import (
    check_floating,
    check_groups,
    check_options,
    checked_channels,
    checked_valid,
)


def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    valid: Tensor | None = None,
    impl: str = "auto",
) -> Tensor:
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` over the groups of each sample.

    The C channels form ``num_groups`` groups of neighbours; mean and variance (with 1/n) are over
    the C / num_groups channels of a group and all positions of one sample.

    Args:
        x: (B, C, *), any floating dtype; its memory format is kept and never changes values.
        num_groups: G, a divisor of C.
        weight, bias: (C,), one value per channel, or None.
        eps: added to the variance.
        valid: bool (or 0 and 1), True = real, of the shape of x without its channel axis, such as
            (B, T) or (B, H, W), or broadcastable to it. Other positions count nowhere, give 0 and
            get no gradient; a sample without a real position gives 0.
        impl: ``auto``, or the one that must run: ``torch`` or ``cpu``.

    Returns:
        y in the shape and dtype of x. The compiled kernel computes in float32
        (float64 for float64 input), torch operations in float64 where the device has it.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Wu and He 2018, arXiv:1803.08494.

    Example:
        >>> import torch
        >>> group_norm(torch.tensor([[[1.0], [3.0], [10.0], [30.0]]]), 2).flatten()
        tensor([-1.0000,  1.0000, -1.0000,  1.0000])
    """
    who = "group_norm"
    check_batch_of_channels(who, x, (None, None, weight, bias))
    check_groups(who, x.shape[1], num_groups)
    check_options(who, eps, "inside", impl)
    mask = None if valid is None else checked_valid(who, valid, x, 1)
    formula = ops.GroupNormFormula(num_groups, float(eps), impl=impl)
    y, *_ = ops.group_norm(formula, x, weight, bias, mask)
    return y


def check_batch_of_channels(who: str, x: Tensor, per_channel: tuple[Tensor | None, ...]) -> None:
    """Check x (B, C, *), and running_mean, running_var, weight and bias against its channels."""
    check_floating(who, x)
    if x.dim() < 2:
        raise ShapeError(sentence(who, "x must be (B, C, *)", f"x is {tuple(x.shape)}"))
    checked_channels(who, x, 1, per_channel, fix="x is (B, C, *)")
