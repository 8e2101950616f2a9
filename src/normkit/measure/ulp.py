"""Units in the last place: how far a result stands from the truth, counted in its own dtype."""

from __future__ import annotations

import torch
from torch import Tensor

from normkit.errors import DtypeError, ShapeError, sentence

_EXPONENT_BITS = 0x7FF0_0000_0000_0000  # of a float64; alone they are the power of two below it


def unit_roundoff(dtype: torch.dtype) -> float:
    """Largest relative error of one rounding: half the gap between 1 and the next number.

    Raises:
        DtypeError: ``dtype`` is not a floating dtype.

    Example:
        >>> unit_roundoff(torch.bfloat16) == 2.0**-8
        True
    """
    return _finfo("unit_roundoff", dtype).eps / 2


def ulp(value64: Tensor, dtype: torch.dtype) -> Tensor:
    """Gap between neighbouring numbers of ``dtype`` at ``|value64|``.

    For ``2**e <= |v| < 2**(e+1)`` it is ``2**e`` times the gap at 1. Below the smallest normal
    number it stays at the gap between subnormals, also at 0; beyond the largest finite number,
    and at infinity, it stays at the last gap. NaN gives NaN.

    Args:
        value64: any shape, float64.
        dtype: the floating dtype whose gaps are wanted.

    Returns:
        float64, the shape of ``value64``; exact.

    Raises:
        DtypeError: ``value64`` is not float64, or ``dtype`` is not a floating dtype.

    Example:
        >>> ulp(torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64), torch.float32).log2().tolist()
        [-149.0, -23.0, -22.0]
    """
    info = _finfo("ulp", dtype)
    check_float64("ulp", "value64", value64)
    size = value64.detach().abs().clamp(info.tiny, info.max)
    power = (size.view(torch.int64) & _EXPONENT_BITS).view(torch.float64)
    return torch.where(size.isnan(), size, power * info.eps)


def absolute_error(y: Tensor, ref64: Tensor) -> Tensor:
    """``|y - ref64|`` in float64, where a value that is not finite but should be counts as inf.

    A truth that is itself NaN, infinite, or so large that it rounds to infinity in the dtype of
    ``y`` is met only by the same NaN or infinity.

    Raises:
        DtypeError: ``ref64`` is not float64, or ``y`` is not floating.
        ShapeError: the shapes differ.

    Example:
        >>> absolute_error(torch.tensor([1.5]), torch.tensor([1.0], dtype=torch.float64)).item()
        0.5
    """
    _finfo("absolute_error", y.dtype)
    check_float64("absolute_error", "ref64", ref64)
    if y.shape != ref64.shape:
        came = f"y is {tuple(y.shape)}, ref64 is {tuple(ref64.shape)}"
        raise ShapeError(sentence("absolute_error", "y and ref64 must have one shape", came))
    got, truth = y.detach().double(), ref64.detach()
    rounded = truth.to(y.dtype).double()
    same = (got == rounded) | (got.isnan() & rounded.isnan())
    beyond = ~(got.isfinite() & truth.isfinite())
    error = torch.where(beyond, torch.inf, (got - truth).abs())
    return torch.where(beyond & same, 0.0, error)


def ulp_error(y: Tensor, ref64: Tensor) -> Tensor:
    """Distance from ``y`` to the truth in ulps of the dtype of ``y``; 0.5 is a correct rounding.

    NaN or infinity where the truth is finite counts as inf.

    Args:
        y: any shape, any floating dtype.
        ref64: the truth, the same shape, float64.

    Raises:
        DtypeError: ``ref64`` is not float64, or ``y`` is not floating.
        ShapeError: the shapes differ.

    Example:
        >>> truth = torch.tensor([1.0, 0.1], dtype=torch.float64)
        >>> bool((ulp_error(truth.float(), truth) <= 0.5).all())
        True
    """
    return absolute_error(y, ref64) / ulp(ref64, y.dtype)


def check_float64(who: str, name: str, value: Tensor) -> None:
    """Raise :class:`DtypeError` unless ``value`` is float64."""
    if value.dtype != torch.float64:
        rule = f"{name} must be float64"
        fix = f"Compute the truth in float64; {name}.double() only widens what was rounded"
        raise DtypeError(sentence(who, rule, f"{name} is {value.dtype}", fix))


def _finfo(who: str, dtype: torch.dtype) -> torch.finfo:
    if not dtype.is_floating_point:
        raise DtypeError(sentence(who, "the dtype must be floating", f"it is {dtype}"))
    return torch.finfo(dtype)
