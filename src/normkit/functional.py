"""Norms as functions of tensors. Every input is checked here, once, with a sentence."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from normkit import ops
from normkit.errors import OptionError, check_choice, sentence
from normkit.ops.check import (
    NormalizedShape,
    check_options,
    checked,
    checked_channels,
    checked_valid,
    measured_features,
)
from normkit.spec.norm import OUTPUT_DTYPES, ROUNDINGS, EpsPlace, OutputDtype, Rounding


def layer_norm(
    x: Tensor,
    normalized_shape: NormalizedShape,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    eps_place: EpsPlace = "inside",
    zero_centred: bool = False,
    impl: str = "auto",
) -> Tensor:
    """``y = (x - mean) / sqrt(var + eps) * weight + bias`` over the last axes, var with 1/n.

    Args:
        x: (*, *normalized_shape), any floating dtype, any strides.
        normalized_shape: sizes of the last axes, which share one mean and variance.
        weight, bias: of shape ``normalized_shape``, any floating dtype, or None.
        eps: added to the variance.
        eps_place: ``outside`` divides by ``std + eps``, ``clamp`` by ``max(std, eps)``.
        zero_centred: the gain is 1 + weight.
        impl: ``auto`` or ``torch``.

    Returns:
        y in the shape and dtype of x; computed in float64 (float32 on a device without it).

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450.

    Example:
        >>> layer_norm(torch.tensor([[1.0, 2.0, 3.0]]), 3)
        tensor([[-1.2247,  0.0000,  1.2247]])
    """
    who = "layer_norm"
    shape = checked(who, x, normalized_shape, weight, bias)
    check_options(who, eps, eps_place, impl)
    formula = ops.LayerNormFormula(len(shape), float(eps), eps_place, zero_centred)
    (y,) = ops.layer_norm(formula, x, weight, bias)
    return y


def rms_norm(
    x: Tensor,
    normalized_shape: NormalizedShape,
    weight: Tensor | None = None,
    eps: float | None = None,
    *,
    bias: Tensor | None = None,
    eps_place: EpsPlace = "inside",
    zero_centred: bool = False,
    rounding: Rounding = "once",
    output_dtype: OutputDtype = "input",
    fraction: float = 1.0,
    impl: str = "auto",
) -> Tensor:
    """``y = x / sqrt(mean(x^2) + eps) * weight`` over the last axes.

    Args:
        x: (*, *normalized_shape), any floating dtype, any strides.
        normalized_shape: sizes of the last axes, which share one mean square.
        weight, bias: of shape ``normalized_shape``, any floating dtype, or None.
        eps: added to the mean square; None is 1.19e-7, for float64 input 2.2e-16, as in torch.
        eps_place: ``outside`` divides by ``rms + eps``, ``clamp`` by ``max(rms, eps)``.
        zero_centred: the gain is 1 + weight (Gemma).
        rounding: ``once`` at the end (torch, Gemma); ``before_gain`` also rounds the normalised
            value to the dtype of x (Llama).
        output_dtype: that of the ``input``, the ``promoted`` one of x and weight (Llama with a
            float32 weight), or the ``weight``'s (Apex's mixed norms).
        fraction: part of the features, the first ones, that the mean square sees (pRMSNorm).
        impl: ``auto`` or ``torch``.

    Returns:
        y in the shape of x; computed in float64 (float32 on a device without it).

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Zhang and Sennrich 2019, arXiv:1910.07467.

    Example:
        >>> rms_norm(torch.tensor([[3.0, 4.0]]), 2)
        tensor([[0.8485, 1.1314]])
    """
    who = "rms_norm"
    shape = checked(who, x, normalized_shape, weight, bias)
    check_options(who, eps, eps_place, impl)
    check_choice(who, "rounding", rounding, ROUNDINGS)
    check_choice(who, "output_dtype", output_dtype, OUTPUT_DTYPES)
    formula = ops.RMSNormFormula(
        len(shape),
        default_eps(x.dtype) if eps is None else float(eps),
        eps_place,
        zero_centred,
        rounding,
        output_dtype,
        measured_features(who, shape, fraction),
    )
    (y,) = ops.rms_norm(formula, x, weight, bias)
    return y


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
        impl: ``auto`` or ``torch``.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Ioffe and Szegedy 2015, arXiv:1502.03167.

    Example:
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
        formula = ops.BatchNormFormula(axis, float(eps))
        y, mean, var, n = ops.batch_norm(formula, x, weight, bias, mask)
        new_mean = _moved(running_mean, mean, momentum, n > 0)
        wide_n = n.to(var.dtype)
        unbiased = var * (wide_n / (wide_n - 1).clamp(min=1))
        return BatchNormOutput(y, new_mean, _moved(running_var, unbiased, momentum, n > 1), n)
    given = ops.BatchNormGivenFormula(axis, float(eps))
    (y,) = ops.batch_norm_given(given, x, weight, bias, mask, running_mean, running_var)
    return BatchNormOutput(y, running_mean, running_var, None)


def _moved(
    old: Tensor | None, new: Tensor, momentum: float | Tensor, defined: Tensor
) -> Tensor | None:
    """The running statistic after this batch; as it was where the batch defines none."""
    if old is None:
        return None
    wide = old.to(new.dtype)
    moved = (1 - momentum) * wide + momentum * new.detach()
    return torch.where(defined, moved, wide).to(old.dtype)


def default_eps(dtype: torch.dtype) -> float:
    """The eps that torch's RMSNorm computes with when it is given None: 1.19e-7, or 2.2e-16."""
    return torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).eps
