"""What the shared contract needs to know about a layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Others = Callable[[tuple[int, ...]], tuple[Tensor, ...]]


def nothing(shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """No argument but x."""
    return ()


@dataclass(frozen=True, kw_only=True)
class Case:
    """One layer with one choice of options.

    Attributes:
        name: id of the case.
        build: makes it; keyword arguments go to the constructor (device, dtype).
        shape: of an input.
        op: the custom op that it must run as when compiled; None where it computes nothing.
        row: shape of one token where every token is normalised by itself, whatever stands before.
        others: further arguments of forward for an input of this shape, the same for the same
            shape; floating ones (float64) get gradients, bool ones are masks.
        coupled: a position's output depends on other samples.
        exact: the backward pass is the derivative (PowerNorm's is an approximation).
        twin: torch's layer that means the same, or None.
        training: mode that the contract runs it in.
        image: x is (B, C, H, W), and its memory format is kept.
        layout_bits: the strides of x change no bit; else a kernel for each layout adds in its own
            order.
    """

    name: str
    build: Callable[..., nn.Module]
    shape: tuple[int, ...]
    op: str | None
    row: tuple[int, ...] | None = None
    others: Others = nothing
    coupled: bool = False
    exact: bool = True
    twin: Callable[..., nn.Module] | None = None
    training: bool = True
    image: bool = False
    layout_bits: bool = True

    def layer(self, dtype: torch.dtype = torch.float64, **kwargs: Any) -> nn.Module:
        """A layer with random parameters and statistics."""
        layer = self.build(dtype=dtype, **kwargs)
        scramble(layer)
        return layer.train(self.training)

    def input(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """A random input."""
        return torch.randn(self.shape, dtype=torch.float64).to(dtype)

    def check_layouts(self, first: Sequence[Tensor], second: Sequence[Tensor]) -> None:
        """Compare what two layouts of one input gave."""
        for a, b in zip(first, second, strict=True):
            if self.layout_bits:
                assert torch.equal(a, b)
            else:
                torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)

    def arguments(self, x: Tensor) -> tuple[Tensor, ...]:
        """All arguments of forward for this x."""
        others = self.others(tuple(x.shape))
        return (x, *(t.to(x.dtype) if t.is_floating_point() else t for t in others))

    def function(
        self, layer: nn.Module, dtype: torch.dtype = torch.float64
    ) -> Callable[[Tensor], Tensor]:
        """The layer as a function of x alone, for inputs of the shape of the case."""
        _, *others = self.arguments(torch.empty(self.shape, dtype=dtype))
        return (lambda x: layer(x, *others)) if others else layer


def scramble(layer: nn.Module) -> None:
    """Give parameters and running statistics values that no default hides behind."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(1.0 + 0.3 * torch.randn(parameter.shape))
        if getattr(layer, "running_mean", None) is not None:
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2.0)
        if getattr(layer, "running_square", None) is not None:
            layer.running_square.uniform_(0.5, 2.0)
            layer.running_product.normal_()


def built(name: str, layer: Any, *args: Any, **options: Any) -> Callable[..., nn.Module]:
    """A constructor with everything given but device and dtype."""

    def build(**kwargs: Any) -> nn.Module:
        made: nn.Module = layer(*args, **options, **kwargs)
        return made

    build.__name__ = name
    return build


def seeded(*shape: int, seed: int = 0) -> Tensor:
    """Random numbers that the shape alone decides, float64."""
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def lengths(shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """A mask (B, T) for x (B, T, ...): the first row whole, then one position, two, three ..."""
    B, T = shape[:2]
    counts = torch.arange(B).clamp(max=T)
    counts[:1] = T
    return (torch.arange(T) < counts[:, None],)
