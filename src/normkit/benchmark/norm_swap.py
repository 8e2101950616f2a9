"""Put our norms in the place of torch's and of transformers' RMSNorm modules, for a timing."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from normkit import layers

TORCH_NORMS = (nn.LayerNorm, nn.RMSNorm)
BATCH_NORMS = (nn.GroupNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a norm: torch's, one of ours, or called ...Norm as transformers does."""
    known = isinstance(module, (*TORCH_NORMS, *BATCH_NORMS))
    return known or type(module).__name__.endswith("Norm")


def swap_norms(model: nn.Module) -> list[str]:
    """Replace LayerNorm, RMSNorm and RMSNorm-like modules inside a model; name those replaced.

    Parameters are shared with the module that goes. A norm of torch's exact class is replaced as
    it is; one of another class with ``weight`` and ``eps`` or ``variance_epsilon`` only where ours
    gives what it gives on a drawn input, in one of the conventions that models use.
    """
    found = []
    for name, module in list(model.named_modules()):
        new = ours_for(module)
        if name and new is not None:
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, new.train(module.training))
            found.append(name)
    return found


def ours_for(module: nn.Module) -> nn.Module | None:
    """Our module for this one; None where we have none that gives the same."""
    if type(module) is nn.LayerNorm:
        new: nn.Module = layers.LayerNorm(
            module.normalized_shape,
            module.eps,
            module.elementwise_affine,
            bias=module.bias is not None,
        )
        return _sharing(new, module)
    if type(module) is nn.RMSNorm:
        return _sharing(
            layers.RMSNorm(module.normalized_shape, module.eps, module.elementwise_affine), module
        )
    return _ours_for_alike(module)


def _ours_for_alike(module: nn.Module) -> nn.Module | None:
    eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    parameters = dict(module.named_parameters())
    if not isinstance(eps, float) or list(parameters) != ["weight"] or isinstance(module, _OURS):
        return None
    weight = parameters["weight"]
    if weight.dim() != 1 or not type(module).__name__.endswith("Norm"):
        return None
    candidates = (
        layers.RMSNorm(weight.shape, eps, rounding="before_gain", output_dtype="promoted"),
        layers.RMSNorm(weight.shape, eps, zero_centred=True),
        layers.RMSNorm(weight.shape, eps),
    )
    errors = {_difference(n, module): n for c in candidates[::-1] for n in [_sharing(c, module)]}
    least = min(errors)
    return errors[least] if least <= 4 * torch.finfo(weight.dtype).eps else None


_OURS = tuple(getattr(layers, name) for name in layers.__all__ if name.endswith("Norm"))


def _sharing(new: nn.Module, old: nn.Module) -> nn.Module:
    """The new module with the parameters of the old one."""
    for name, parameter in old.named_parameters():
        setattr(new, name, parameter)
    return new


@torch.no_grad()
def _difference(new: nn.Module, old: nn.Module) -> float:
    """How far both are apart for a drawn input and a drawn weight; inf where they cannot be."""
    weight = old.get_parameter("weight")
    kept = weight.clone()
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(8, *weight.shape, generator=generator).to(weight)
    try:
        weight.copy_(torch.rand(weight.shape, generator=generator) + 0.5)
        ours, theirs = new(x), old(x)
    except TypeError:  # it wants more than x: a gate, a residual
        return math.inf
    finally:
        weight.copy_(kept)
    if not isinstance(theirs, Tensor) or (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return math.inf
    wide = theirs.double()
    return float(((ours.double() - wide).abs() / wide.abs().clamp(min=1e-3)).max())
