"""scale_norm on tensors."""

from __future__ import annotations

from torch import Tensor

from normkit import ops
from normkit.errors import ShapeError, sentence
from normkit.functional.nested import over_nested
from normkit.ops.check import check_floating, check_one_number, check_options
from normkit.spec.norm import EpsPlace


@over_nested
def scale_norm(
    x: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-5,
    *,
    eps_place: EpsPlace = "clamp",
    zero_centred: bool = False,
    impl: str = "auto",
) -> Tensor:
    """``y = weight * x / max(|x|, eps)`` over the last axis, |x| its Euclidean length.

    Args:
        x: (*, n), any floating dtype, any strides.
        weight: one number, of shape (1,) or (), any floating dtype; None gives length 1.
        eps: the least length that is divided by.
        eps_place: ``inside`` divides by ``sqrt(|x|^2 + eps)``, ``outside`` by ``|x| + eps``.
        zero_centred: the gain is ``sqrt(n) * (1 + weight)``.
        impl: ``auto``, or the one that must run: ``torch`` or ``cpu``.

    Returns:
        y in the shape and dtype of x. The compiled kernel computes in float32
        (float64 for float64 input), torch operations in float64 where the device has it.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Nguyen and Salazar 2019, arXiv:1910.05895.

    Example:
        >>> import torch
        >>> scale_norm(torch.tensor([[3.0, 4.0]]), torch.tensor([10.0]))
        tensor([[6., 8.]])
    """
    who = "scale_norm"
    check_floating(who, x)
    if x.dim() == 0:
        raise ShapeError(sentence(who, "x must have at least one axis", "it is a single number"))
    check_one_number(who, "weight", weight)
    check_options(who, eps, eps_place, impl)
    formula = ops.ScaleNormFormula(1, float(eps), eps_place, zero_centred, impl=impl)
    (y,) = ops.scale_norm(formula, x, weight)
    return y
