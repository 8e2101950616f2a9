"""LSTM and GRU layers of the cells with LayerNorm, for sequences of unlike length too."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from normkit.layers.recurrent_cells import LayerNormGRUCell, LayerNormLSTMCell
from normkit.layers.sequences import Recurrent


class LayerNormLSTM(Recurrent):
    """Layers of :class:`LayerNormLSTMCell` over sequences, with the signature of ``torch.nn.LSTM``.

    Padding changes nothing: where a position is not real, the state stays, so a sequence ends with
    the state of its last real step (the backward direction starts there), outputs are 0, and no
    gradient flows. Statistics are of one step of one sample and need no mask. The input's part of
    all steps is computed at once.

    Args:
        input_size, hidden_size: of x and of the state (H).
        num_layers: how many, each on the output of the one below.
        bias: have biases.
        batch_first: x and output are (B, T, *) instead of (T, B, *); states are not changed by it.
        dropout: probability, on the output of every layer but the last, in training.
        bidirectional: a second cell per layer that runs backwards; outputs side by side.
        device, dtype: of the parameters.
        eps, forget_bias: of the cells.

    Shape:
        x (T, B, input_size), or (T, input_size) for one sequence; hx (h_0, c_0), each
        (num_layers * directions, B, H), None for zeros; ``valid`` bool (or 0 and 1), True = real,
        (B, T) whatever ``batch_first`` says, None: the mask of the ``with normkit.valid(mask):``
        around the call, and without one all are real; or ``lengths`` (B,), how many of the first
        positions are real -> output (T, B, directions * H), (h_n, c_n).

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.
        StateError: a recomputation without the mask of its first forward pass.

    Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450, supplement.

    Example:
        >>> lstm = LayerNormLSTM(3, 4, batch_first=True)
        >>> output, (h, c) = lstm(torch.randn(2, 5, 3), lengths=[5, 2])
        >>> bool((output[1, 2:] == 0).all()), torch.equal(h[0, 1], output[1, 1])
        (True, True)
    """

    cell = LayerNormLSTMCell

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        eps: float = 1e-5,
        forget_bias: float = 1.0,
    ) -> None:
        """Create the cells; see the class for the arguments."""
        shape = (input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        rest = {"device": device, "dtype": dtype, "eps": eps, "forget_bias": forget_bias}
        super().__init__(*shape, **rest)

    def forward(
        self,
        input: Tensor,  # noqa: A002 (torch's name)
        hx: tuple[Tensor, Tensor] | None = None,
        *,
        valid: Tensor | None = None,
        lengths: Any = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """All steps; see the class for shapes."""
        output, (h, c) = self.run(input, hx, valid, lengths)
        return output, (h, c)


class LayerNormGRU(Recurrent):
    """Layers of :class:`LayerNormGRUCell` over sequences, with the signature of ``torch.nn.GRU``.

    Arguments, masks and shapes are those of :class:`LayerNormLSTM`, with one state: hx and h_n are
    (num_layers * directions, B, H).

    Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450, supplement.

    Example:
        >>> output, h = LayerNormGRU(3, 4, bidirectional=True)(torch.randn(5, 2, 3))
        >>> output.shape, h.shape
        (torch.Size([5, 2, 8]), torch.Size([2, 2, 4]))
    """

    cell = LayerNormGRUCell

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        eps: float = 1e-5,
    ) -> None:
        """Create the cells; see the class for the arguments."""
        shape = (input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        super().__init__(*shape, device=device, dtype=dtype, eps=eps)

    def forward(
        self,
        input: Tensor,  # noqa: A002 (torch's name)
        hx: Tensor | None = None,
        *,
        valid: Tensor | None = None,
        lengths: Any = None,
    ) -> tuple[Tensor, Tensor]:
        """All steps; see the class for shapes."""
        output, (h,) = self.run(input, None if hx is None else (hx,), valid, lengths)
        return output, h
