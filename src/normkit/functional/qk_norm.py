"""qk_norm on queries and keys, made of rms_norm, layer_norm and scale_norm."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor

from normkit.errors import OptionError, ShapeError, check_choice, sentence
from normkit.functional.layer_norm import layer_norm
from normkit.functional.rms_norm import rms_norm
from normkit.functional.scale_norm import scale_norm
from normkit.ops.check import check_floating
from normkit.ops.precision import compute_dtype
from normkit.spec.norm import ROUNDINGS, Rounding

_OnRows = Callable[[Tensor, Tensor | None, Tensor | None], Tensor]
QKKind = Literal["rms", "layer", "l2"]
QKOver = Literal["head", "projection"]
QK_KINDS: tuple[QKKind, ...] = get_args(QKKind)
QK_OVERS: tuple[QKOver, ...] = get_args(QKOver)
QK_EPS: dict[QKKind, float] = {"rms": 1e-6, "layer": 1e-6, "l2": 1e-12}


def qk_norm(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None = None,
    k_weight: Tensor | None = None,
    *,
    q_bias: Tensor | None = None,
    k_bias: Tensor | None = None,
    kind: QKKind = "rms",
    over: QKOver = "head",
    eps: float | None = None,
    scale: Tensor | float | None = None,
    zero_centred: bool = False,
    rounding: Rounding = "once",
    impl: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Normalise queries and keys, each by itself, before rotary positions and the dot product.

    ============  =================================================  ======================
    kind          for queries and keys alike                         attention's own scale
    ============  =================================================  ======================
    ``rms``       ``x / sqrt(mean(x^2) + eps) * weight``             1 / sqrt(d), as before
    ``layer``     ``(x - mean) / sqrt(var + eps) * weight + bias``   1 / sqrt(d), as before
    ``l2``        ``x / max(|x|, eps)``; queries also times scale    1: ``scale=1.0``
    ============  =================================================  ======================

    Args:
        q, k: (*, d) for ``over="head"``; (*, heads, T, d) for ``over="projection"``, where k may
            have fewer heads. Any floating dtype, any strides.
        q_weight, k_weight, q_bias, k_bias: of shape (d,), shared by the heads, or (heads * d,)
            for ``over="projection"``; or None.
        kind: see the table.
        over: ``head``: the statistics of a token's head; ``projection``: those of all its heads
            (OLMo 2; not for ``l2``).
        eps: None is 1e-6, for ``l2`` 1e-12.
        scale: for ``l2`` the number that stands for 1 / sqrt(d): a tensor of shape (1,) or (), or
            a float; None is 1.
        zero_centred: the gain is 1 + weight (Gemma 3).
        rounding: ``before_gain`` as in :func:`rms_norm` (Qwen 3's code).
        impl: ``auto``, or the one that must run: ``torch`` or ``cpu``.

    Returns:
        (q, k), each in its shape and dtype.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Henry et al. 2020, arXiv:2010.04245 (l2); Dehghani et al. 2023, arXiv:2302.05442.

    Example:
        >>> q, k = torch.tensor([3.0, 4.0]), torch.tensor([0.0, 2.0])
        >>> qk_norm(q, k, kind="l2", scale=10.0, impl="torch")
        (tensor([6., 8.]), tensor([0., 1.]))
    """
    who = "qk_norm"
    check_qk_options(who, kind, over, zero_centred=zero_centred, rounding=rounding)
    check_scale(who, kind, scale)
    eps = QK_EPS[kind] if eps is None else eps
    if kind == "l2":
        if any(t is not None for t in (q_weight, k_weight, q_bias, k_bias)):
            rule = "kind 'l2' has no weight and no bias"
            raise OptionError(sentence(who, rule, "one was given", "Its learned number is scale"))
        return (
            scale_norm(q, _as_tensor(scale, q), eps, impl=impl),
            scale_norm(k, None, eps, impl=impl),
        )

    def normalised(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        width = x.shape[-1]
        if kind == "layer":
            return layer_norm(x, width, weight, bias, eps, zero_centred=zero_centred, impl=impl)
        return rms_norm(
            x,
            width,
            weight,
            eps,
            bias=bias,
            zero_centred=zero_centred,
            rounding=rounding,
            impl=impl,
        )

    by_heads = _over_projection(normalised) if over == "projection" else normalised
    for name, x, weight in (("q", q, q_weight), ("k", k, k_weight)):
        _check_against(who, name, x, weight, over)
    return by_heads(q, q_weight, q_bias), by_heads(k, k_weight, k_bias)


def scale_for_length(length: int) -> float:
    """Where the learned scale of ``l2`` starts in its paper: ``log2(L^2 - L)``.

    Args:
        length: L, the length that 97.5% of the training sequences do not exceed.

    Source: Henry et al. 2020, arXiv:2010.04245.

    Example:
        >>> round(scale_for_length(128), 2)
        13.99
    """
    if not isinstance(length, int) or length < 2:
        rule = "length must be an integer of at least 2"
        raise OptionError(sentence("scale_for_length", rule, f"it is {length!r}"))
    return math.log2(length * (length - 1))


def check_qk_options(
    who: str, kind: QKKind, over: QKOver, *, zero_centred: bool, rounding: Rounding
) -> None:
    """Refuse values outside the vocabulary, and options that the kind does not have."""
    check_choice(who, "kind", kind, QK_KINDS)
    check_choice(who, "over", over, QK_OVERS)
    check_choice(who, "rounding", rounding, ROUNDINGS)
    if kind == "l2" and over == "projection":
        rule = "kind 'l2' is taken over each head"
        raise OptionError(sentence(who, rule, "over is 'projection'", "Try over='head'"))
    if kind == "l2" and zero_centred:
        rule = "zero_centred is for a gain, which kind 'l2' does not have"
        raise OptionError(sentence(who, rule, "it is True"))
    if kind != "rms" and rounding != "once":
        rule = "rounding is for kind 'rms'"
        raise OptionError(sentence(who, rule, f"kind is {kind!r}"))


def check_scale(who: str, kind: QKKind, scale: Tensor | float | None) -> None:
    """Refuse a scale where attention keeps its own."""
    if kind != "l2" and scale is not None:
        rule = "scale is for kind 'l2', beside the others attention keeps its 1 / sqrt(d)"
        raise OptionError(sentence(who, rule, f"kind is {kind!r}"))


def check_head_width(who: str, name: str, x: Tensor, head_width: int) -> None:
    """Refuse a last axis that is not one head: most often all heads side by side."""
    check_floating(who, x)
    if x.shape[-1:] == (head_width,):
        return
    rule = f"the last axis of {name} must be head_width, {head_width}"
    came, fix = f"{name} is {tuple(x.shape)}", ""
    last = x.shape[-1] if x.dim() else 0
    if last and last % head_width == 0:
        heads = last // head_width
        came += f", as {heads} heads side by side would be"
        fix = f"Try {name}.unflatten(-1, ({heads}, {head_width})).transpose(-3, -2)"
    elif last:
        fix = f"Try head_width={last}"
    raise ShapeError(sentence(who, rule, came, fix))


def check_heads(who: str, name: str, x: Tensor, heads: int) -> None:
    """Refuse x where the axis before positions does not hold the heads."""
    if x.dim() >= 3 and x.shape[-3] == heads:
        return
    rule = f"{name} must be (*, heads, T, head_width) with {heads} heads"
    fix = ""
    if x.dim() >= 3 and x.shape[-2] == heads:
        fix = f"Try {name}.transpose(-3, -2)"
    elif x.dim() >= 3:
        fix = f"Try {'heads' if name == 'q' else 'kv_heads'}={x.shape[-3]}"
    raise ShapeError(sentence(who, rule, f"it is {tuple(x.shape)}", fix))


def _check_against(who: str, name: str, x: Tensor, weight: Tensor | None, over: QKOver) -> None:
    """Check x against the size of its gain, which says what is normalised together."""
    if over == "head":
        if weight is not None:
            check_head_width(who, name, x, weight.shape[-1])
        return
    check_floating(who, x)
    if x.dim() < 3:
        rule = f"over='projection' needs {name} as (*, heads, T, head_width)"
        raise ShapeError(sentence(who, rule, f"it is {tuple(x.shape)}"))
    size = x.shape[-3] * x.shape[-1]
    if weight is not None and weight.shape != (size,):
        rule = f"{name}_weight must have heads * head_width numbers, ({size},)"
        came = f"it is {tuple(weight.shape)} and {name} is {tuple(x.shape)}"
        raise ShapeError(sentence(who, rule, came, f"{name} must be (*, heads, T, head_width)"))


def _over_projection(function: _OnRows) -> _OnRows:
    """Let a norm of the last axis see the heads of a token side by side, as a matrix wrote them."""

    def of_all_heads(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        heads, width = x.shape[-3], x.shape[-1]
        y = function(x.transpose(-3, -2).flatten(-2), weight, bias)
        return y.reshape(*y.shape[:-1], heads, width).transpose(-3, -2)

    return of_all_heads


def _as_tensor(scale: Tensor | float | None, q: Tensor) -> Tensor | None:
    if scale is None or isinstance(scale, Tensor):
        return scale
    # In the dtype that q is computed in: half precision would move the number.
    return torch.full((1,), scale, dtype=compute_dtype(q), device=q.device)
