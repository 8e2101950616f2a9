"""LSTM and GRU cells with LayerNorm on what enters their gates."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from normkit.errors import OptionError, ShapeError, sentence
from normkit.layers.layer_norm import LayerNorm
from normkit.layers.parameters import register_parameters

State = tuple[Tensor, ...]


class Cell(nn.Module):
    """What the cells share: torch's four parameters, and a step in two halves.

    ``project`` is the half that needs no state, so a layer runs it on all steps at once.

    Attributes:
        parts: how many vectors of ``hidden_size`` a cell computes from input and state.
        states: how many tensors its state has; the first is the output.
    """

    parts: ClassVar[int]
    states: ClassVar[int]

    weight_ih: nn.Parameter
    weight_hh: nn.Parameter
    bias_ih: nn.Parameter | None
    bias_hh: nn.Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
            if not isinstance(size, int) or size < 1:
                rule = f"{name} must be an integer of at least 1"
                raise OptionError(sentence(type(self).__name__, rule, f"it is {size!r}"))
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = self.parts * hidden_size
        shapes = {"weight_ih": (rows, input_size), "weight_hh": (rows, hidden_size)}
        biases = dict.fromkeys(("bias_ih", "bias_hh"), rows if bias else None)
        register_parameters(self, {**shapes, **biases}, device, dtype)

    def reset_parameters(self) -> None:
        """Weights uniform in ±1/sqrt(hidden_size) as torch's, biases 0, norms as new."""
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in (self.weight_ih, self.weight_hh):
            nn.init.uniform_(weight, -bound, bound)
        for bias in (self.bias_ih, self.bias_hh):
            if bias is not None:
                nn.init.zeros_(bias)
        for norm in self.children():
            if isinstance(norm, LayerNorm):
                norm.reset_parameters()

    def project(self, x: Tensor) -> Tensor:
        """What the input gives to the gates, normalised: (*, input_size) -> (*, parts * H)."""
        raise NotImplementedError

    def step(self, projected: Tensor, state: State) -> State:
        """The next state, from what :meth:`project` gave for this step."""
        raise NotImplementedError

    def next_state(self, x: Tensor, state: State | None) -> State:
        """The next state, with shapes checked; a state of None is 0."""
        who = type(self).__name__
        check_width(who, x, self.input_size)
        shape = (*x.shape[:-1], self.hidden_size)
        if state is None:
            state = (x.new_zeros(shape),) * self.states
        for name, tensor in zip(("h", "c"), state, strict=False):
            if tensor.shape != shape:
                rule = f"{name} must be {shape}"
                raise ShapeError(sentence(who, rule, f"it is {tuple(tensor.shape)}"))
        return self.step(self.project(x), state)

    def extra_repr(self) -> str:
        """Sizes, and bias where there is none."""
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class LayerNormLSTMCell(Cell):
    """An LSTM cell with LayerNorm on both pre-activations and on the cell state.

    ::

        i, f, g, o = LN(W_ih x) + b_ih + LN(W_hh h) + b_hh
        c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h' = sigmoid(o) * tanh(LN(c'))

    Three norms, each with a gain of its own; the first two take one mean and variance over all
    four gates, as in the paper. ``b_ih`` and ``b_hh`` are the biases of theirs. With the three
    replaced by ``NoNorm`` this is ``torch.nn.LSTMCell``.

    Args:
        input_size, hidden_size: of x and of the state (H).
        bias: have ``bias_ih``, ``bias_hh`` and a bias of the last norm.
        device, dtype: of the parameters.
        eps: of the norms.
        forget_bias: where ``bias_ih`` of the forget gate starts; all other biases start at 0.

    Shape:
        x (B, input_size) or (input_size,); hx (h, c), each (B, H) or (H,), None for zeros
        -> (h', c').

    Raises:
        ShapeError, OptionError: each with a sentence.

    Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450, supplement; the start of the forget gate is
    that of Jozefowicz et al. 2015.

    Example:
        >>> h, c = LayerNormLSTMCell(3, 4)(torch.randn(2, 3))
        >>> h.shape, c.shape
        (torch.Size([2, 4]), torch.Size([2, 4]))
    """

    parts = 4
    states = 2

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        eps: float = 1e-5,
        forget_bias: float = 1.0,
    ) -> None:
        """Create parameters and norms; see the class for the arguments."""
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.forget_bias = forget_bias
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self.norm_ih = LayerNorm(4 * hidden_size, eps, bias=False, **where)
        self.norm_hh = LayerNorm(4 * hidden_size, eps, bias=False, **where)
        self.norm_c = LayerNorm(hidden_size, eps, bias=bias, **where)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As torch's weights; biases 0, ``forget_bias`` for the forget gate; norms as new."""
        super().reset_parameters()
        if self.bias_ih is not None:
            forget = self.bias_ih.detach().narrow(0, self.hidden_size, self.hidden_size)
            nn.init.constant_(forget, self.forget_bias)

    def project(self, x: Tensor) -> Tensor:
        """``LN(W_ih x) + b_ih``."""
        return _plus(self.norm_ih(nn.functional.linear(x, self.weight_ih)), self.bias_ih)

    def step(self, projected: Tensor, state: State) -> State:
        """(h', c')."""
        h, c = state
        recurrent = self.norm_hh(nn.functional.linear(h, self.weight_hh))
        i, f, g, o = (projected + _plus(recurrent, self.bias_hh)).chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * self.norm_c(c).tanh(), c

    def forward(
        self,
        input: Tensor,  # noqa: A002 (torch's name)
        hx: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """One step; see the class for shapes."""
        h, c = self.next_state(input, hx)
        return h, c


class LayerNormGRUCell(Cell):
    """A GRU cell with LayerNorm on what input and state give to it.

    ::

        r, z = sigmoid(LN(W_ih x) + b_ih + LN(W_hh h) + b_hh)
        n    = tanh(LN(W_in x) + b_in + r * (LN(W_hn h) + b_hn))
        h'   = (1 - z) * n + z * h

    Four norms, each with a gain of its own: the gates r and z share one mean and variance, the
    candidate n has its own, as in the paper. The reset gate acts after the product with the state,
    as in ``torch.nn.GRUCell``, which this is with the four replaced by ``NoNorm``.

    Args:
        input_size, hidden_size: of x and of the state (H).
        bias: have ``bias_ih`` and ``bias_hh``, which start at 0.
        device, dtype: of the parameters.
        eps: of the norms.

    Shape:
        x (B, input_size) or (input_size,); hx (B, H) or (H,), None for zeros -> h'.

    Raises:
        ShapeError, OptionError: each with a sentence.

    Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450, supplement.

    Example:
        >>> LayerNormGRUCell(3, 4)(torch.randn(2, 3)).shape
        torch.Size([2, 4])
    """

    parts = 3
    states = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        eps: float = 1e-5,
    ) -> None:
        """Create parameters and norms; see the class for the arguments."""
        super().__init__(input_size, hidden_size, bias, device, dtype)
        where: dict[str, Any] = {"bias": False, "device": device, "dtype": dtype}
        self.norm_ih = LayerNorm(2 * hidden_size, eps, **where)
        self.norm_in = LayerNorm(hidden_size, eps, **where)
        self.norm_hh = LayerNorm(2 * hidden_size, eps, **where)
        self.norm_hn = LayerNorm(hidden_size, eps, **where)
        self.reset_parameters()

    def project(self, x: Tensor) -> Tensor:
        """``LN(W x) + b`` of the input, gates and candidate normalised apart."""
        return _plus(self._normed(x, self.weight_ih, self.norm_ih, self.norm_in), self.bias_ih)

    def step(self, projected: Tensor, state: State) -> State:
        """(h',)."""
        (h,) = state
        recurrent = self._normed(h, self.weight_hh, self.norm_hh, self.norm_hn)
        r, z, n = projected.chunk(3, dim=-1)
        hr, hz, hn = _plus(recurrent, self.bias_hh).chunk(3, dim=-1)
        n = (n + (r + hr).sigmoid() * hn).tanh()
        z = (z + hz).sigmoid()
        return ((1 - z) * n + z * h,)

    def forward(
        self,
        input: Tensor,  # noqa: A002 (torch's name)
        hx: Tensor | None = None,
    ) -> Tensor:
        """One step; see the class for shapes."""
        (h,) = self.next_state(input, None if hx is None else (hx,))
        return h

    def _normed(self, t: Tensor, weight: Tensor, gates: nn.Module, candidate: nn.Module) -> Tensor:
        both = nn.functional.linear(t, weight)
        first, second = both[..., : 2 * self.hidden_size], both[..., 2 * self.hidden_size :]
        return torch.cat([gates(first), candidate(second)], dim=-1)


def check_width(who: str, x: Tensor, width: int) -> None:
    """Raise :class:`ShapeError` unless the last axis of x has this size."""
    if x.dim() < 1 or x.shape[-1] != width:
        rule = f"the last axis of x must be {width}"
        raise ShapeError(sentence(who, rule, f"x is {tuple(x.shape)}"))


def _plus(t: Tensor, bias: Tensor | None) -> Tensor:
    return t if bias is None else t + bias
