"""NormLinear: a norm and the linear layers behind it, as one layer that keeps only its input."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks_of_all

from normkit import functional
from normkit.errors import OptionError, ShapeError, check_choice, choices, sentence
from normkit.layers.layer_norm import LayerNorm
from normkit.layers.rms_norm import RMSNorm
from normkit.ops.norm_linear import LINEAR_NORMS, MOST_LINEARS, LinearNorm

_WHO = "NormLinear"
_NORMS: dict[LinearNorm, type[LayerNorm | RMSNorm]] = {
    "layer_norm": LayerNorm,
    "rms_norm": RMSNorm,
}
# What these compute is known from their attributes. A subclass may compute anything.
_KNOWN_NORMS = (LayerNorm, RMSNorm, nn.LayerNorm, nn.RMSNorm)
_KNOWN_LINEARS = (nn.Linear,)
_OPTIONS = ("eps_place", "zero_centred", "rounding", "output_dtype", "fraction")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class NormLinear(nn.Module):
    """``out = norm(x) W^T + b``, of which only x is kept for the backward pass.

    The submodules ``norm`` and ``linear`` hold the parameters: the state_dict has ``norm.weight``,
    ``linear.weight`` and so on. They are not called, unless one of them has hooks, or is of
    another class than it was made of (an adapter put in its place): then they are called one after
    the other, so that nothing is left out, and keep what they keep.

    Args:
        in_features: width of x, over which the norm runs.
        out_features: of the linear layer; or 2 or 3 numbers, for as many linear layers on one
            norm (query, key and value; gate and up), which are ``linear.0``, ``linear.1`` ...
        bias: the linear layers have a bias.
        device, dtype: of all parameters.
        norm: ``layer_norm`` or ``rms_norm``.
        norm_options: further arguments of :class:`LayerNorm` or :class:`RMSNorm`, by name: ``eps``,
            ``eps_place``, ``zero_centred`` and so on. (Their ``bias``: see :meth:`of`.)

    Shape:
        x (*, in_features), any floating dtype and strides -> (*, out_features); for several
        numbers of features a tuple. Under autocast of the dtype that F.linear returns.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Example:
        >>> layer = NormLinear(4, 6, norm="rms_norm", eps=1e-6)
        >>> layer(torch.randn(2, 4)).shape, list(layer.state_dict())
        (torch.Size([2, 6]), ['norm.weight', 'linear.weight', 'linear.bias'])
    """

    norm: nn.Module
    linear: nn.Module

    def __init__(
        self,
        in_features: int,
        out_features: int | Sequence[int],
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        norm: LinearNorm = "layer_norm",
        **norm_options: Any,
    ) -> None:
        """Create the two layers; see the class for the arguments."""
        super().__init__()
        check_choice(_WHO, "norm", norm, LINEAR_NORMS)
        _check_options(norm, norm_options)
        several = isinstance(out_features, Sequence)
        sizes = list(out_features) if isinstance(out_features, Sequence) else [out_features]
        _check_count(len(sizes))
        made = [nn.Linear(in_features, size, bias, device, dtype) for size in sizes]
        self.norm = _NORMS[norm](in_features, device=device, dtype=dtype, **norm_options)
        self.linear = nn.ModuleList(made) if several else made[0]

    @classmethod
    def of(cls, norm: nn.Module, linear: nn.Module | Sequence[nn.Module]) -> NormLinear:
        """The layer made of modules that exist: they are shared, not copied.

        Args:
            norm: a LayerNorm or RMSNorm, of normkit or torch; both are computed as normkit does.
            linear: an ``nn.Linear`` on its output, or a sequence of 2 or 3.

        Raises:
            OptionError: a module of another class, subclasses included: it may compute anything.
            ShapeError: the linear layer does not fit the norm.

        Example:
            >>> norm, linear = nn.LayerNorm(4), nn.Linear(4, 6)
            >>> NormLinear.of(norm, linear).linear is linear
            True
        """
        _check_class("norm", norm, _KNOWN_NORMS, "a LayerNorm or RMSNorm of normkit or torch")
        several = isinstance(linear, nn.ModuleList | Sequence)
        given: list[Any] = list(linear) if several else [linear]  # type: ignore[arg-type]
        _check_count(len(given))
        shape: Any = norm.normalized_shape
        width = shape[-1]
        for one in given:
            _check_class("linear", one, _KNOWN_LINEARS, "an nn.Linear, or 2 or 3 of them")
            if one.in_features != width:
                rule = f"in_features must be the width of the norm, {width}"
                raise ShapeError(sentence(_WHO, rule, f"it is {one.in_features}"))
        layer = cls.__new__(cls)
        nn.Module.__init__(layer)
        layer.norm = norm
        layer.linear = linear if isinstance(linear, nn.Module) else nn.ModuleList(given)
        return layer

    def reset_parameters(self) -> None:
        """As the norm and ``nn.Linear`` start."""
        for module in (self.norm, *self._linears()):
            module.reset_parameters()

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Normalise and project; see the class for shapes."""
        linears = self._linears()
        if x.is_nested or not self._known(linears):
            y = self.norm(x)
            outs = tuple(linear(y) for linear in linears)
        else:
            outs = self._fused(x, linears)
        return outs if isinstance(self.linear, nn.ModuleList) else outs[0]

    def _fused(self, x: Tensor, linears: list[Any]) -> tuple[Tensor, ...]:
        norm: Any = self.norm
        options: Any = {name: getattr(norm, name) for name in _OPTIONS if hasattr(norm, name)}
        return functional.norm_linear(
            x,
            [linear.weight for linear in linears],
            [linear.bias for linear in linears],
            norm="layer_norm" if isinstance(norm, nn.LayerNorm) else "rms_norm",
            norm_weight=norm.weight,
            norm_bias=getattr(norm, "bias", None),
            normalized_shape=norm.normalized_shape,
            eps=norm.eps,
            **options,
        )

    def _linears(self) -> list[Any]:
        return list(self.linear) if isinstance(self.linear, nn.ModuleList) else [self.linear]

    def _known(self, linears: list[Any]) -> bool:
        """Whether calling the modules would do nothing that their parameters do not say."""
        if any(getattr(hooks_of_all, f"_global{name}") for name in _HOOKS):
            return False
        return _plain(self.norm, _KNOWN_NORMS) and all(
            _plain(one, _KNOWN_LINEARS) for one in linears
        )


def _plain(module: nn.Module, kinds: tuple[type[nn.Module], ...]) -> bool:
    """Whether a module is of one of these classes itself, with nothing hung on it."""
    if type(module) not in kinds or "forward" in module.__dict__:
        return False
    return not any(getattr(module, name) for name in _HOOKS)


def _check_options(norm: LinearNorm, options: dict[str, Any]) -> None:
    """Refuse options that the norm does not have, or that the layer gives itself."""
    taken = set(inspect.signature(_NORMS[norm]).parameters)
    taken -= {"normalized_shape", "bias", "device", "dtype"}
    for name in options:
        if name not in taken:
            rule = f"options of norm={norm!r} are {choices(sorted(taken))}"
            raise OptionError(sentence(_WHO, rule, f"{name!r} is none of them"))


def _check_count(count: int) -> None:
    if not 1 <= count <= MOST_LINEARS:
        rule = f"one norm takes from 1 to {MOST_LINEARS} linear layers"
        fix = "Try one of all features, and out.split(sizes, -1)"
        raise OptionError(sentence(_WHO, rule, f"there are {count}", fix))


def _check_class(
    name: str, module: nn.Module, kinds: tuple[type[nn.Module], ...], wanted: str
) -> None:
    if type(module) not in kinds:
        rule = f"{name} must be {wanted}, and no subclass"
        raise OptionError(sentence(_WHO, rule, f"it is a {type(module).__name__}"))
