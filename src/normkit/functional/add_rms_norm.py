"""add_rms_norm on tensors, with dropout and without."""

from __future__ import annotations

from torch import Tensor

from normkit import ops
from normkit.errors import check_choice
from normkit.functional.residual import (
    AddNormOutput,
    add_and_normalise,
    check_residual,
    dropout_seed,
)
from normkit.functional.rms_norm import default_eps
from normkit.ops.add_norm import sum_dtype
from normkit.ops.check import NormalizedShape, check_options, checked
from normkit.spec.norm import ROUNDINGS, EpsPlace, Rounding


def add_rms_norm(
    x: Tensor,
    residual: Tensor,
    normalized_shape: NormalizedShape,
    weight: Tensor | None = None,
    eps: float | None = None,
    *,
    bias: Tensor | None = None,
    alpha: float = 1.0,
    eps_place: EpsPlace = "inside",
    zero_centred: bool = False,
    rounding: Rounding = "once",
    inplace: bool = False,
    impl: str = "auto",
) -> AddNormOutput:
    """``h = x + alpha * residual`` and ``y = rms_norm(h)``, both returned.

    Args:
        x: (*, *normalized_shape), any floating dtype, any strides: what a branch returned.
        residual: the shape of x, any floating dtype: float32 beside a half x keeps the residual
            stream in float32.
        normalized_shape: sizes of the last axes, which share one mean square.
        weight, bias: of shape ``normalized_shape``, any floating dtype, or None.
        eps: added to the mean square; None is 1.19e-7, for a float64 h 2.2e-16, as in torch.
        alpha: a number; DeepNorm's. It gets no gradient.
        eps_place: ``outside`` divides by ``rms + eps``, ``clamp`` by ``max(rms, eps)``.
        zero_centred: the gain is 1 + weight (Gemma).
        rounding: ``once`` at the end; ``before_gain`` also rounds the normalised value to the
            dtype of h (Llama).
        inplace: write h to the residual's memory and return the residual; with gradients off.
        impl: ``auto``, or the one that must run: ``torch`` or ``cpu``.

    Returns:
        AddNormOutput: y in the dtype of x, h in the dtype that x and residual promote to. y is the
        norm of h as it is returned, rounded. Of all these tensors, h and weight are kept for the
        backward pass.

    Raises:
        ShapeError, DtypeError, OptionError, StateError: each with a sentence that says what to
            type.

    Source: Zhang and Sennrich 2019, arXiv:1910.07467; alpha: Wang et al. 2022, arXiv:2203.00555.

    Example:
        >>> import torch
        >>> y, h = add_rms_norm(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 2.0]), 2)
        >>> y, h
        (tensor([0.8485, 1.1314]), tensor([3., 4.]))
    """
    who = "add_rms_norm"
    shape = checked(who, x, normalized_shape, weight, bias)
    check_options(who, eps, eps_place, impl)
    check_choice(who, "rounding", rounding, ROUNDINGS)
    check_residual(who, x, residual, alpha)
    eps = default_eps(sum_dtype(x, residual)) if eps is None else float(eps)
    how = (len(shape), eps, eps_place, zero_centred, float(alpha), rounding)
    formula = ops.AddRMSNormFormula(*how, impl=impl)
    tensors = (x, residual, weight, bias)
    return add_and_normalise(who, ops.add_rms_norm, formula, *tensors, inplace=inplace)


def dropout_add_rms_norm(
    x: Tensor,
    residual: Tensor,
    normalized_shape: NormalizedShape,
    weight: Tensor | None = None,
    eps: float | None = None,
    *,
    p: float = 0.5,
    training: bool = True,
    seed: Tensor | int | None = None,
    bias: Tensor | None = None,
    alpha: float = 1.0,
    eps_place: EpsPlace = "inside",
    zero_centred: bool = False,
    rounding: Rounding = "once",
    inplace: bool = False,
    impl: str = "auto",
) -> AddNormOutput:
    """``h = dropout(x) + alpha * residual`` and ``y = rms_norm(h)``, both returned.

    Args:
        x, residual: as in :func:`add_rms_norm`, and so is all that is not named here.
        p, training, seed: as in :func:`dropout_add_layer_norm`.

    Returns:
        (y, h), as in :func:`add_rms_norm`.

    Raises:
        ShapeError, DtypeError, OptionError, StateError: each with a sentence that says what to
            type.

    Source: Srivastava et al. 2014; the generator: Salmon et al. 2011.

    Example:
        >>> import torch
        >>> x, residual = torch.ones(6), torch.zeros(6)
        >>> dropout_add_rms_norm(x, residual, 6, p=0.5, seed=3).h
        tensor([2., 0., 2., 2., 0., 2.])
    """
    who = "dropout_add_rms_norm"
    shape = checked(who, x, normalized_shape, weight, bias)
    check_options(who, eps, eps_place, impl)
    check_choice(who, "rounding", rounding, ROUNDINGS)
    check_residual(who, x, residual, alpha)
    drawn = dropout_seed(who, p, training, seed)
    eps = default_eps(sum_dtype(x, residual)) if eps is None else float(eps)
    how = (len(shape), eps, eps_place, zero_centred, float(alpha), rounding)
    tensors = (x, residual, weight, bias)
    if drawn is None:
        formula = ops.AddRMSNormFormula(*how, impl=impl)
        return add_and_normalise(who, ops.add_rms_norm, formula, *tensors, inplace=inplace)
    dropping = ops.DropoutAddRMSNormFormula(*how, float(p), impl=impl)
    op = ops.dropout_add_rms_norm
    return add_and_normalise(who, op, dropping, *tensors, drawn, inplace=inplace)
