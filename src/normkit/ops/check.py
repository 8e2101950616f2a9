"""What an op asks of its inputs, each refusal with a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from normkit.errors import DtypeError, OptionError, ShapeError, check_choice, sentence
from normkit.ops.path import Situation, check_impl, situation
from normkit.spec.norm import EPS_PLACES, EpsPlace
from normkit.spec.shape import as_shape, validate

NormalizedShape = int | Sequence[int] | torch.Size


def measured_features(who: str, shape: tuple[int, ...], fraction: float) -> int | None:
    """How many leading features a fraction measures: ``int(fraction * n)``, None for all."""
    if not 0.0 < fraction <= 1.0:
        raise OptionError(sentence(who, "fraction must lie in (0, 1]", f"it is {fraction}"))
    width = math.prod(shape)
    count = int(fraction * width)
    if count == 0:
        rule = "fraction must measure at least one feature"
        fix = f"Use at least 1/{width}"
        raise OptionError(sentence(who, rule, f"{fraction} of {width} features is none", fix))
    return None if count == width else count


def checked_valid(who: str, valid: Tensor, x: Tensor, channel_axis: int) -> Tensor:
    """A mask as bool in the shape of x without its channel axis."""
    valid = as_bool(who, valid)
    shape = (*x.shape[:channel_axis], *x.shape[channel_axis + 1 :])
    try:
        return valid.expand(shape)
    except RuntimeError:
        rule = f"valid must be broadcastable to x without its channel axis, {tuple(shape)}"
        raise ShapeError(sentence(who, rule, f"it is {tuple(valid.shape)}")) from None


def as_bool(who: str, valid: Tensor) -> Tensor:
    """A mask of bool, or of 0 and 1, as bool."""
    if valid.dtype == torch.bool:
        return valid
    if situation() is not Situation.NO_GRADIENT or not _zero_or_one(valid):
        rule = "valid must be bool, or hold only 0 and 1"
        fix = "Try valid=mask.bool(), True where a position is real"
        raise DtypeError(sentence(who, rule, f"it is {valid.dtype}", fix))
    return valid.bool()


def _zero_or_one(valid: Tensor) -> bool:
    return bool(((valid == 0) | (valid == 1)).all())


def check_floating(who: str, x: object) -> None:
    """Raise :class:`DtypeError` unless x is a real floating-point tensor."""
    if not isinstance(x, Tensor):
        rule = "x must be a torch.Tensor"
        raise DtypeError(sentence(who, rule, f"it is {type(x).__name__}", "Try torch.as_tensor(x)"))
    if not x.is_floating_point():
        rule = "x must be a floating-point tensor"
        raise DtypeError(sentence(who, rule, f"x is {x.dtype}", "Try x.float()"))


def check_beside(who: str, name: str, tensor: object, x: Tensor) -> None:
    """Check a tensor that stands beside x: floating-point, and broadcastable to x."""
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
        came = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        rule = f"{name} must be a floating-point tensor"
        raise DtypeError(sentence(who, rule, f"it is {came}"))
    try:
        tensor.expand(x.shape)
    except RuntimeError:
        rule = f"{name} must be broadcastable to x, {tuple(x.shape)}"
        raise ShapeError(sentence(who, rule, f"it is {tuple(tensor.shape)}")) from None


def checked(
    who: str,
    x: Tensor,
    normalized_shape: NormalizedShape,
    weight: Tensor | None,
    bias: Tensor | None,
    *,
    names: tuple[str, str] = ("weight", "bias"),
) -> tuple[int, ...]:
    """Check x, weight and bias against normalized_shape, which is returned as a tuple."""
    check_floating(who, x)
    shape = as_shape(who, normalized_shape)
    if x.shape[-len(shape) :] != shape:
        validate(x.shape, shape, who=who)
    for name, tensor in zip(names, (weight, bias), strict=True):
        if tensor is not None and tensor.shape != shape:
            rule = f"{name} must have the shape of the normalised axes, {shape}"
            raise ShapeError(sentence(who, rule, f"it is {tuple(tensor.shape)}"))
    return shape


def checked_channels(
    who: str,
    x: Tensor,
    channel_axis: int,
    per_channel: tuple[Tensor | None, ...],
    *,
    names: tuple[str, ...] = ("running_mean", "running_var", "weight", "bias"),
    fix: str = "channel_axis names the channels",
) -> int:
    """Check x and the (C,) tensors; return the channel axis counted from the front."""
    check_floating(who, x)
    if not -x.dim() <= channel_axis < x.dim():
        rule = f"channel_axis must be an axis of x, which has {x.dim()}"
        raise ShapeError(sentence(who, rule, f"it is {channel_axis}"))
    axis = channel_axis % x.dim()
    for name, tensor in zip(names, per_channel, strict=True):
        if tensor is not None and tensor.shape != (x.shape[axis],):
            rule = f"{name} must have one value per channel, ({x.shape[axis]},)"
            raise ShapeError(sentence(who, rule, f"it is {tuple(tensor.shape)}", fix))
    return axis


def check_one_number(who: str, name: str, tensor: Tensor | None) -> None:
    """Check a learned scalar, of shape (1,) or ()."""
    if tensor is not None and tensor.shape not in ((1,), ()):
        rule = f"{name} must be one number, of shape (1,) or ()"
        raise ShapeError(sentence(who, rule, f"it is {tuple(tensor.shape)}"))


def check_groups(who: str, channels: int, groups: int, name: str = "num_groups") -> None:
    """Check that ``groups`` splits the channels evenly."""
    if not isinstance(groups, int) or groups < 1:
        rule = f"{name} must be an integer of at least 1"
        raise OptionError(sentence(who, rule, f"it is {groups!r}"))
    if channels % groups:
        rule = f"{name} must divide the {channels} channels"
        fits = [g for g in range(1, channels + 1) if channels % g == 0]
        fix = f"Try {name}={min(fits, key=lambda g: abs(g - groups))}"
        raise OptionError(sentence(who, rule, f"it is {groups}", fix))


def check_options(who: str, eps: float | None, eps_place: EpsPlace, impl: str) -> None:
    """Check the options that every op has."""
    check_choice(who, "eps_place", eps_place, EPS_PLACES)
    check_impl(who, impl)
    number = isinstance(eps, int | float) and not isinstance(eps, bool)
    if eps is not None and not (number and 0.0 <= eps < math.inf):
        raise OptionError(sentence(who, "eps must be finite and at least 0", f"it is {eps!r}"))
