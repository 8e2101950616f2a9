"""The one error bound that every kernel, op and layer is held to."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from normkit.errors import OptionError, sentence
from normkit.measure.ulp import check_float64, ulp, unit_roundoff

LARGEST_K = 4.0


def growth(terms: int) -> float:
    """Growth of rounding error in a sum of ``terms`` numbers that is blocked: ``log2(n) + 1``.

    Adding in blocks, and the blocks pairwise, makes every number pass through about log2(n)
    additions; adding one by one would make it n.

    Example:
        >>> growth(1), growth(1024)
        (1.0, 11.0)
    """
    return math.log2(max(terms, 1)) + 1


def error_bound(
    ref64: Tensor,
    *,
    dtype: torch.dtype,
    compute_dtype: torch.dtype,
    terms: int,
    row_scale: Tensor | float,
    k: float = LARGEST_K,
) -> Tensor:
    """Bound on ``|y - ref64|``, element by element:

    ``k * (ulp(ref64, dtype) + unit_roundoff(compute_dtype) * growth(terms) * row_scale)``

    The first term pays for rounding the result to ``dtype``, the second for the arithmetic. Why
    k is at most 4: at the scale of the row, a norm rounds in four places, and each costs at most
    one unit roundoff times the growth: the sum behind the mean, its subtraction together with
    the sum of squares, the factor 1/std, and the products and sums with gain and bias. An
    honest implementation stays under four of them; a larger k would only make room for mistakes.

    Args:
        ref64: the truth, float64.
        dtype: of the result.
        compute_dtype: of the arithmetic inside (float32 for a half input).
        terms: how many numbers the longest sum adds up.
        row_scale: broadcastable to ``ref64``, see :func:`output_scale`,
            :func:`input_gradient_scale`, :func:`gain_gradient_scale` and :func:`sum_scale`.
        k: at most 4.

    Returns:
        float64, the shape of ``ref64``; never 0.

    Raises:
        DtypeError: ``ref64`` is not float64, or a dtype is not floating.
        OptionError: ``k`` is above 4, or not above 0.

    Example:
        >>> ref64 = torch.tensor([1.0], dtype=torch.float64)
        >>> error_bound(
        ...     ref64, dtype=torch.float32, compute_dtype=torch.float32, terms=1, row_scale=1.0
        ... ).item() == 4 * (2.0**-23 + 2.0**-24)
        True
    """
    if not 0 < k <= LARGEST_K:
        rule = "k must be above 0 and at most 4"
        fix = "An error that needs more is not rounding"
        raise OptionError(sentence("error_bound", rule, f"k is {k}", fix))
    arithmetic = unit_roundoff(compute_dtype) * growth(terms) * row_scale
    return k * (ulp(ref64, dtype) + arithmetic)


def output_scale(
    x_hat64: Tensor,
    gain64: Tensor | None = None,
    bias64: Tensor | None = None,
    *,
    axes: Sequence[int] = (-1,),
) -> Tensor:
    """Row scale of a norm's output: ``max|gain * x_hat| + max|bias|`` over the normalised axes.

    Args:
        x_hat64: normalised values, any shape, float64.
        gain64, bias64: broadcastable to ``x_hat64``, or None.
        axes: the axes that share one set of statistics.

    Returns:
        float64, broadcastable to ``x_hat64`` (size 1 on ``axes``).

    Example:
        >>> x_hat64 = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
        >>> output_scale(x_hat64, 2 * torch.ones(2), torch.tensor([0.0, -1.0])).tolist()
        [[5.0]]
    """
    check_float64("output_scale", "x_hat64", x_hat64)
    scaled = x_hat64 if gain64 is None else gain64 * x_hat64
    scale = largest(scaled, axes)
    if bias64 is not None:
        scale = scale + largest(bias64.expand(x_hat64.shape), axes)
    return scale


def input_gradient_scale(
    g64: Tensor,
    x_hat64: Tensor,
    rstd64: Tensor,
    *,
    axes: Sequence[int] = (-1,),
    center: bool = True,
) -> Tensor:
    """Row scale of dx, the terms of ``rstd * (g - mean(g) - x_hat * mean(g * x_hat))`` added up.

    Both means enter with absolute values inside: their sums may cancel, their rounding does not.

    Args:
        g64: gain times the incoming gradient, the shape of ``x_hat64``.
        x_hat64: normalised values, float64.
        rstd64: 1/std (or 1/rms), broadcastable to ``x_hat64``.
        axes: the axes that share one set of statistics.
        center: False for a norm without the middle term (RMSNorm).

    Returns:
        float64, broadcastable to ``x_hat64`` (size 1 on ``axes``).

    Example:
        >>> ones = torch.ones(1, 2, dtype=torch.float64)
        >>> input_gradient_scale(ones, ones, ones[:, :1]).tolist()
        [[3.0]]
    """
    check_float64("input_gradient_scale", "x_hat64", x_hat64)
    over = tuple(axes)
    scale = largest(g64, over)
    scale = scale + largest(x_hat64, over) * (g64 * x_hat64).abs().mean(over, keepdim=True)
    if center:
        scale = scale + g64.abs().mean(over, keepdim=True)
    return rstd64 * scale


def gain_gradient_scale(
    dy64: Tensor,
    x_hat64: Tensor,
    *,
    axes: Sequence[int] = (-1,),
    summed: Sequence[int] = (0,),
) -> Tensor:
    """Scale of the gradient of the gain, ``sum(dy * x_hat)``: the sum of ``|dy| * max|x_hat|``.

    The largest of the row stands for each x_hat, because the mean that was subtracted from it is
    off by a rounding of that size. As ``terms`` of the bound take all numbers that enter: rows
    times width.

    Args:
        dy64: incoming gradient, the shape of ``x_hat64``.
        x_hat64: normalised values, float64.
        axes: the axes that share one set of statistics.
        summed: the axes that the gradient sums over; they are dropped.

    Example:
        >>> x_hat64 = torch.tensor([[1.0, -3.0], [0.0, 2.0]], dtype=torch.float64)
        >>> gain_gradient_scale(torch.ones(2, 2), x_hat64)
        tensor([5., 5.], dtype=torch.float64)
    """
    check_float64("gain_gradient_scale", "x_hat64", x_hat64)
    return (dy64.detach().abs() * largest(x_hat64, axes)).sum(tuple(summed))


def sum_scale(terms64: Tensor, *, axes: Sequence[int]) -> Tensor:
    """Scale of a plain sum over ``axes``, such as the gradient of the bias: the sum of ``|term|``.

    The summed axes are dropped, as the sum drops them.

    Example:
        >>> sum_scale(torch.tensor([[1.0, 2.0], [-3.0, 0.0]], dtype=torch.float64), axes=(0,))
        tensor([4., 2.], dtype=torch.float64)
    """
    check_float64("sum_scale", "terms64", terms64)
    return terms64.detach().abs().sum(tuple(axes))


def largest(value: Tensor, axes: Sequence[int]) -> Tensor:
    """``max|value|`` over ``axes``, which stay with size 1; 0 where there is nothing to look at."""
    size = value.detach().abs()
    if value.numel() == 0:
        return size.sum(tuple(axes), keepdim=True)
    return size.amax(tuple(axes), keepdim=True)
