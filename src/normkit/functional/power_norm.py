"""power_norm on tensors: it returns the new running mean square and changes nothing else."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from normkit import ops
from normkit.errors import OptionError, StateError, sentence
from normkit.functional.running import moved
from normkit.ops import PowerPasses
from normkit.ops.check import check_groups, check_options, checked_channels, checked_valid

__all__ = ["PowerNormOutput", "PowerPasses", "power_norm"]

_NAMES = ("running_square", "running_product", "weight", "bias")


class PowerNormOutput(NamedTuple):
    """Result of :func:`power_norm`; the statistics carry no gradient.

    Attributes:
        y: in the shape, dtype and memory format of x.
        running_square: the new one, (C,).
        step: how many training passes there are now, 0-d int64.
    """

    y: Tensor
    running_square: Tensor
    step: Tensor


def power_norm(
    x: Tensor,
    running_square: Tensor,
    running_product: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    backward_momentum: float = 0.1,
    warmup: int = 10000,
    step: Tensor | int = 0,
    groups: int | None = 1,
    channel_axis: int = -1,
    valid: Tensor | None = None,
    passes: PowerPasses | None = None,
    impl: str = "auto",
) -> PowerNormOutput:
    """``y = x / psi * weight + bias`` for each channel, psi a running root mean square.

    First x is divided by its root mean square over each group of channels at each position. Then
    psi^2 is ``running_square + eps`` as it was before this call; in training it moves by
    ``momentum`` towards the mean square of the batch. The backward pass is not the derivative:
    ``dx = (g - x_hat * nu) / psi`` with the running product nu, which it moves to
    ``nu * (1 - backward_momentum * mean(x_hat^2)) + backward_momentum * mean(g * x_hat)``.
    In the first ``warmup`` passes psi is that of the batch and the gradient exact, and the
    running mean square is the mean of those so far.

    Args:
        x: any shape with a channel axis, any floating dtype.
        running_square: (C,).
        running_product: nu, (C,); None is 0.
        weight, bias: (C,) or None.
        training: use the rules above; otherwise nothing moves and the gradient is exact.
        momentum, backward_momentum: weights of the new value.
        eps: added to a mean square.
        warmup: how many first passes use the batch.
        step: how many training passes came before.
        groups: groups of neighbouring channels that are scaled first; None for no such scaling.
        channel_axis: the axis that is not averaged over.
        valid: bool (or 0 and 1), True = real, of the shape of x without its channel axis or
            broadcastable to it. Other positions count nowhere, give 0 and get no gradient.
        passes: ``PowerPasses(running_product)`` lets the backward pass move that tensor, once for
            each call, and makes checkpointing safe; keep it and give it to every call. Without
            one the backward pass moves nothing.
        impl: ``auto``, or the one that must run: ``torch`` or ``cpu``.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.
        StateError: training under torch.func or forward mode: the rule has no derivative there.

    Source: Shen et al. 2020, arXiv:2003.07845.

    Example:
        >>> x = torch.tensor([[3.0], [5.0]])
        >>> y, square, step = power_norm(
        ...     x, torch.tensor([4.0]), training=True, warmup=0, groups=None, eps=0.0
        ... )
        >>> y.flatten().tolist()  # divided by 2, what psi was
        [1.5, 2.5]
        >>> round(square.item(), 4)  # 0.9 * 4 + 0.1 * 17
        5.3
    """
    who = "power_norm"
    statistics = (running_square, running_product)
    axis = checked_channels(who, x, channel_axis, (*statistics, weight, bias), names=_NAMES)
    check_options(who, eps, "inside", impl)
    _check_momenta(who, momentum=momentum, backward_momentum=backward_momentum)
    if groups is not None:
        check_groups(who, x.shape[axis], groups, "groups")
    mask = None if valid is None else checked_valid(who, valid, x, axis)
    step = torch.as_tensor(step, device=running_square.device)
    if not training:
        given = ops.PowerNormGivenFormula(axis, float(eps), groups, impl=impl)
        (y,) = ops.power_norm_given(given, x, weight, bias, running_square, mask)
        return PowerNormOutput(y, running_square, step)
    _refuse_functional(who)
    product = torch.zeros_like(running_square) if running_product is None else running_product
    handle = None if passes is None or torch.compiler.is_exporting() else passes.handle
    formula = ops.PowerNormFormula(
        axis, float(eps), groups, float(backward_momentum), warmup, impl=impl
    )
    offered = (running_square, product, step, handle, mask)
    y, batch, n, *_ = ops.power_norm(formula, x, weight, bias, *offered)
    new = torch.where(step < warmup, 1 / (step + 1).to(batch.dtype), momentum)
    defined = (n > 0) & batch.isfinite()
    square = moved(running_square, batch, new, defined)
    assert square is not None  # it was given
    return PowerNormOutput(y, square, step + (n > 0).to(step.dtype))


def _check_momenta(who: str, **momenta: float) -> None:
    for name, value in momenta.items():
        if not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
            raise OptionError(sentence(who, f"{name} must lie in [0, 1]", f"it is {value!r}"))


def _refuse_functional(who: str) -> None:
    if ops.situation() is ops.Situation.FUNCTIONAL:
        rule = "training has no derivative for torch.func or forward-mode transforms"
        fix = "Use training=False, or .eval() on a layer"
        raise StateError(sentence(who, rule, "the backward pass is a rule of its own", fix))
