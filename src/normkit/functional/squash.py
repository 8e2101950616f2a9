"""What dynamic_tanh and dynamic_erf share: checks, and channels that do not stand last."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from normkit.errors import DtypeError, OptionError, ShapeError, sentence
from normkit.ops.check import NormalizedShape, check_floating, check_one_number, checked
from normkit.ops.path import check_impl
from normkit.ops.registration import Op
from normkit.ops.rows import memory_format
from normkit.ops.squash import SquashFormula
from normkit.spec.shape import as_shape


def squashed(
    op: Op,
    kind: type[SquashFormula],
    x: Tensor,
    normalized_shape: NormalizedShape,
    scalars: Mapping[str, Tensor | None],
    weight: Tensor | None,
    bias: Tensor | None,
    *,
    who: str,
    channel_axis: int,
    impl: str,
) -> Tensor:
    """Check every input, run the op with the channels last, return y in the layout of x."""
    check_impl(who, impl)
    check_floating(who, x)
    for name, number in scalars.items():
        _check_number(who, name, number)
    moves = channel_axis not in (-1, x.dim() - 1)
    last = _channels_last(who, x, normalized_shape, channel_axis) if moves else x
    shape = checked(who, last, normalized_shape, weight, bias)
    (y,) = op(kind(len(shape), impl=impl), last, *scalars.values(), weight, bias)
    if not moves:
        return y
    return y.movedim(-1, channel_axis).contiguous(memory_format=memory_format(x))


def _check_number(who: str, name: str, number: object) -> None:
    if number is None:
        return
    if not isinstance(number, Tensor):
        rule = f"{name} must be a tensor of one number"
        came = f"it is {type(number).__name__}"
        raise DtypeError(sentence(who, rule, came, f"Try torch.tensor([{number}])"))
    check_one_number(who, name, number)


def _channels_last(
    who: str, x: Tensor, normalized_shape: NormalizedShape, channel_axis: int
) -> Tensor:
    shape = as_shape(who, normalized_shape)
    if len(shape) > 1:
        rule = "channel_axis names one axis, so normalized_shape must be one number"
        raise OptionError(sentence(who, rule, f"it is {shape}"))
    if not -x.dim() <= channel_axis < x.dim():
        rule = f"channel_axis must be an axis of x, which has {x.dim()}"
        raise ShapeError(sentence(who, rule, f"it is {channel_axis}"))
    if x.shape[channel_axis] != shape[0]:
        rule = f"axis {channel_axis} of x must hold the {shape[0]} channels"
        raise ShapeError(sentence(who, rule, f"x is {tuple(x.shape)}", "channel_axis names it"))
    return x.movedim(channel_axis, -1)
