"""What the adaptive norms share: checks, and one scale and shift per sample or per token."""

from __future__ import annotations

from torch import Tensor

from normkit.errors import ShapeError, sentence
from normkit.ops.adaptive import AdaptiveFormula
from normkit.ops.check import NormalizedShape, check_beside, check_options, checked
from normkit.ops.registration import Op


def adapt(
    op: Op,
    kind: type[AdaptiveFormula],
    x: Tensor,
    normalized_shape: NormalizedShape,
    modulation: tuple[Tensor, Tensor | None],
    *,
    who: str,
    eps: float,
    impl: str,
) -> Tensor:
    """Check everything, and run the op of this kind with (scale, shift)."""
    axes = len(checked(who, x, normalized_shape, None, None))
    check_options(who, eps, "inside", impl)
    scale, shift = modulation
    scale = _beside(who, "scale", scale, x, axes)
    shift = None if shift is None else _beside(who, "shift", shift, x, axes)
    (y,) = op(kind(axes, float(eps), "inside", impl=impl), x, scale, shift)
    return y


def _beside(who: str, name: str, tensor: Tensor, x: Tensor, axes: int) -> Tensor:
    """The tensor such that it broadcasts to x: (B, D) for x (B, T, D) becomes (B, 1, D)."""
    missing = x.dim() - axes - 1
    if isinstance(tensor, Tensor) and tensor.dim() == axes + 1 and missing > 0:
        rows, samples, positions = tensor.shape[0], x.shape[0], x.shape[missing]
        if rows not in (1, positions) and rows == samples:
            tensor = tensor.reshape(rows, *(1,) * missing, *tensor.shape[1:])
        elif rows != 1 and rows == samples:
            rule = f"{name} must say whether its rows are samples or positions"
            came = f"it is {tuple(tensor.shape)} for x {tuple(x.shape)}"
            nones = ", ".join(["None"] * missing)
            fix = f"Try {name}[:, {nones}] for one per sample, {name}[None] for one per position"
            raise ShapeError(sentence(who, rule, came, fix))
    check_beside(who, name, tensor, x)
    return tensor
