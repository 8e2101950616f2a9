"""add_layer_norm on tensors, with dropout and without."""

from __future__ import annotations

from torch import Tensor

from normkit import ops
from normkit.functional.residual import (
    AddNormOutput,
    add_and_normalise,
    check_residual,
    dropout_seed,
)
from normkit.ops.check import NormalizedShape, check_options, checked
from normkit.spec.norm import EpsPlace


def add_layer_norm(
    x: Tensor,
    residual: Tensor,
    normalized_shape: NormalizedShape,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    alpha: float = 1.0,
    eps_place: EpsPlace = "inside",
    zero_centred: bool = False,
    inplace: bool = False,
    impl: str = "auto",
) -> AddNormOutput:
    """``h = x + alpha * residual`` and ``y = layer_norm(h)``, both returned.

    Args:
        x: (*, *normalized_shape), any floating dtype, any strides: what a branch returned.
        residual: the shape of x, any floating dtype: float32 beside a half x keeps the residual
            stream in float32.
        normalized_shape: sizes of the last axes, which share one mean and variance.
        weight, bias: of shape ``normalized_shape``, any floating dtype, or None.
        eps: added to the variance.
        alpha: a number; DeepNorm's. It gets no gradient.
        eps_place: ``outside`` divides by ``std + eps``, ``clamp`` by ``max(std, eps)``.
        zero_centred: the gain is 1 + weight.
        inplace: write h to the residual's memory and return the residual; with gradients off.
        impl: ``auto``, or the one that must run: ``torch`` or ``cpu``.

    Returns:
        AddNormOutput: y in the dtype of x, h in the dtype that x and residual promote to. y is the
        norm of h as it is returned, rounded. Of all these tensors, h and weight are kept for the
        backward pass.

    Raises:
        ShapeError, DtypeError, OptionError, StateError: each with a sentence that says what to
            type.

    Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450; alpha: Wang et al. 2022, arXiv:2203.00555.

    Example:
        >>> import torch
        >>> y, h = add_layer_norm(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 6.0]), 2, eps=0.0)
        >>> y, h
        (tensor([-1.,  1.]), tensor([4., 8.]))
    """
    who = "add_layer_norm"
    shape = checked(who, x, normalized_shape, weight, bias)
    check_options(who, eps, eps_place, impl)
    check_residual(who, x, residual, alpha)
    how = (len(shape), float(eps), eps_place, zero_centred, float(alpha))
    formula = ops.AddLayerNormFormula(*how, impl=impl)
    tensors = (x, residual, weight, bias)
    return add_and_normalise(who, ops.add_layer_norm, formula, *tensors, inplace=inplace)


def dropout_add_layer_norm(
    x: Tensor,
    residual: Tensor,
    normalized_shape: NormalizedShape,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    p: float = 0.5,
    training: bool = True,
    seed: Tensor | int | None = None,
    alpha: float = 1.0,
    eps_place: EpsPlace = "inside",
    zero_centred: bool = False,
    inplace: bool = False,
    impl: str = "auto",
) -> AddNormOutput:
    """``h = dropout(x) + alpha * residual`` and ``y = layer_norm(h)``, both returned.

    Element i of x, counted along its last axes first, is dropped or kept by Philox4x32-10 of
    ``seed`` and i, and kept elements are divided by 1 - p. The mask is found again in the backward
    pass and never stored.

    Args:
        x, residual: as in :func:`add_layer_norm`, and so is all that is not named here.
        p: the probability that an element of x is dropped.
        training: False switches dropout off.
        seed: 64 bits, as an integer or as a torch.int64 tensor of shape (). None draws one from
            torch's CPU generator, so that ``torch.manual_seed`` repeats it.

    Returns:
        (y, h), as in :func:`add_layer_norm`.

    Raises:
        ShapeError, DtypeError, OptionError, StateError: each with a sentence that says what to
            type.

    Source: Srivastava et al. 2014; the generator: Salmon et al. 2011.

    Example:
        >>> import torch
        >>> x, residual = torch.ones(6), torch.zeros(6)
        >>> dropout_add_layer_norm(x, residual, 6, p=0.5, seed=3).h
        tensor([2., 0., 2., 2., 0., 2.])
    """
    who = "dropout_add_layer_norm"
    shape = checked(who, x, normalized_shape, weight, bias)
    check_options(who, eps, eps_place, impl)
    check_residual(who, x, residual, alpha)
    drawn = dropout_seed(who, p, training, seed)
    how = (len(shape), float(eps), eps_place, zero_centred, float(alpha))
    tensors = (x, residual, weight, bias)
    if drawn is None:
        formula = ops.AddLayerNormFormula(*how, impl=impl)
        return add_and_normalise(who, ops.add_layer_norm, formula, *tensors, inplace=inplace)
    dropping = ops.DropoutAddLayerNormFormula(*how, float(p), impl=impl)
    op = ops.dropout_add_layer_norm
    return add_and_normalise(who, op, dropping, *tensors, drawn, inplace=inplace)
