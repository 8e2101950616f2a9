"""What dynamic_tanh and dynamic_erf share: a formula on wide copies of rows and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from normkit.ops.formula import Gradients
from normkit.ops.precision import compute_dtype
from normkit.ops.row_formula import Rowwise


@dataclass(frozen=True)
class SquashFormula(Rowwise):
    """A bounded function of every element of x, then weight and bias of the last ``axes`` axes.

    y has the dtype of x. The bias comes last among the tensors.

    Attributes:
        value: the reference, of rows and parameters.
        derivative: its backward, of dy and these without the bias.
    """

    value: ClassVar[Callable[..., Tensor]]
    derivative: ClassVar[Callable[..., Gradients]]

    def rows_forward(self, x_MN: Tensor, *parameters: Tensor | None) -> Tensor:
        """y_MN in the compute dtype."""
        return self.value(_wide(x_MN), *_flat(x_MN, parameters))

    def rows_backward(self, dy_MN: Tensor, x_MN: Tensor, *parameters: Tensor | None) -> Gradients:
        """Gradients of rows and parameters in the compute dtype."""
        gradients = self.derivative(_wide(dy_MN), _wide(x_MN), *_flat(x_MN, parameters[:-1]))
        found = zip(gradients[1:], parameters, strict=True)
        return gradients[0], *(None if p is None else g for g, p in found)


def _wide(x_MN: Tensor) -> Tensor:
    # Contiguous, because some of torch's functions (sigmoid) round strided elements otherwise.
    return x_MN.to(compute_dtype(x_MN)).contiguous()


def _flat(x_MN: Tensor, parameters: Iterable[Tensor | None]) -> list[Any]:
    dtype = compute_dtype(x_MN)
    return [None if p is None else p.reshape(-1).to(dtype) for p in parameters]
