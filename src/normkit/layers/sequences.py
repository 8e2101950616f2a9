"""How recurrent layers run their cells over sequences: layers, directions, masks."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from normkit.errors import DtypeError, OptionError, ShapeError, sentence
from normkit.layers.recurrent_cells import Cell, State, check_width
from normkit.layers.valid import current_valid
from normkit.ops.check import check_floating, checked_valid


class Recurrent(nn.Module):
    """What the layers share: cells by layer and direction, run over time.

    The cell of layer k and direction d (0 forward, 1 backward) is ``cells[k * directions + d]``,
    the place of its state in h as in torch's.
    """

    cell: ClassVar[type[Cell]]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        **rest: Any,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        if not isinstance(num_layers, int) or num_layers < 1:
            rule = "num_layers must be an integer of at least 1"
            raise OptionError(sentence(who, rule, f"it is {num_layers!r}"))
        if not 0.0 <= dropout <= 1.0:
            raise OptionError(sentence(who, "dropout must lie in [0, 1]", f"it is {dropout}"))
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.directions = 2 if bidirectional else 1
        widths = [input_size, *[self.directions * hidden_size] * (num_layers - 1)]
        self.cells = nn.ModuleList(
            self.cell(width, hidden_size, bias, **rest)
            for width in widths
            for _ in range(self.directions)
        )

    def reset_parameters(self) -> None:
        """Reset every cell."""
        for cell in self.cells:
            cast(Cell, cell).reset_parameters()

    def run(
        self, x: Tensor, state: State | None, valid: Tensor | None, lengths: Any
    ) -> tuple[Tensor, State]:
        """Outputs in the layout of x, and the last states, each (layers * directions, B, H)."""
        self._check(x)
        alone = x.dim() == 2
        time = 1 if self.batch_first and not alone else 0
        x_TBI = x[:, None] if alone else x.transpose(0, time)
        states = self._states(x_TBI, state, alone)
        mask = self._mask(x_TBI, current_valid(self, valid) if lengths is None else valid, lengths)
        if mask is not None:
            x_TBI = torch.where(mask, x_TBI, 0)
        last: list[State] = []
        for layer in range(self.num_layers):
            found = []
            for direction in range(self.directions):
                place = layer * self.directions + direction
                cell = cast(Cell, self.cells[place])
                before = tuple(t[place] for t in states)
                y, after = _scan(cell, x_TBI, before, mask, backwards=direction == 1)
                found.append(y)
                last.append(after)
            x_TBI = torch.cat(found, dim=-1) if self.bidirectional else found[0]
            if layer < self.num_layers - 1 and self.dropout:
                x_TBI = nn.functional.dropout(x_TBI, self.dropout, self.training)
        ends = tuple(torch.stack(parts) for parts in zip(*last, strict=True))
        if alone:
            return x_TBI[:, 0], tuple(t[:, 0] for t in ends)
        return x_TBI.transpose(0, time), ends

    def _check(self, x: Tensor | nn.utils.rnn.PackedSequence) -> None:
        who = type(self).__name__
        if isinstance(x, nn.utils.rnn.PackedSequence):
            rule = "x must be a padded tensor"
            fix = "Give the padded tensor and lengths=, or valid=, True where a position is real"
            raise DtypeError(sentence(who, rule, "it is a PackedSequence", fix))
        check_floating(who, x)
        layout = "(B, T, input_size)" if self.batch_first else "(T, B, input_size)"
        if x.dim() not in (2, 3):
            rule = f"x must be {layout} or (T, input_size)"
            raise ShapeError(sentence(who, rule, f"x is {tuple(x.shape)}"))
        check_width(who, x, self.input_size)
        if x.shape[1 if self.batch_first and x.dim() == 3 else 0] == 0:
            rule = "a sequence must have at least one position"
            raise ShapeError(sentence(who, rule, f"x is {tuple(x.shape)}, {layout}"))

    def _states(self, x_TBI: Tensor, given: State | None, alone: bool) -> State:
        """The first states, each (layers * directions, B, H)."""
        lead = len(self.cells)
        batch = () if alone else (x_TBI.shape[1],)
        shape = (lead, *batch, self.hidden_size)
        if given is None:
            zeros = x_TBI.new_zeros(lead, x_TBI.shape[1], self.hidden_size)
            return (zeros,) * self.cell.states
        for name, tensor in zip(("h_0", "c_0"), given, strict=False):
            if tensor.shape != shape:
                rule = f"{name} must be {shape}"
                came = f"it is {tuple(tensor.shape)}"
                raise ShapeError(sentence(type(self).__name__, rule, came))
        return tuple(t[:, None] for t in given) if alone else given

    def _mask(self, x_TBI: Tensor, valid: Tensor | None, lengths: Any) -> Tensor | None:
        """Where a position is real, (T, B, 1); None where all are."""
        who = type(self).__name__
        T, B = x_TBI.shape[:2]
        if lengths is not None:
            if valid is not None:
                rule = "give valid or lengths, not both"
                raise OptionError(sentence(who, rule, "both are given"))
            valid = _of_lengths(who, torch.as_tensor(lengths, device=x_TBI.device), B, T)
        if valid is None:
            return None
        return checked_valid(who, valid, x_TBI.transpose(0, 1), 2).t()[:, :, None]

    def extra_repr(self) -> str:
        """Sizes, and the options that are not at their defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = {
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0.0,
            "bidirectional": False,
        }
        changed = (name for name, value in defaults.items() if getattr(self, name) != value)
        return text + "".join(f", {name}={getattr(self, name)}" for name in changed)


def _scan(
    cell: Cell, x_TBI: Tensor, state: State, mask_TB1: Tensor | None, *, backwards: bool
) -> tuple[Tensor, State]:
    """Outputs (T, B, H) and the last state; a position that is not real leaves the state."""
    projected = cell.project(x_TBI).unbind(0)
    steps = range(len(projected))
    outputs: dict[int, Tensor] = {}
    for t in reversed(steps) if backwards else steps:
        after = cell.step(projected[t], state)
        if mask_TB1 is None:
            outputs[t] = after[0]
        else:
            real = mask_TB1[t]
            outputs[t] = torch.where(real, after[0], 0)
            after = tuple(
                torch.where(real, new, old) for new, old in zip(after, state, strict=True)
            )
        state = after
    return torch.stack([outputs[t] for t in steps]), state


def _of_lengths(who: str, lengths: Tensor, B: int, T: int) -> Tensor:
    """The mask (B, T) of how many first positions are real."""
    whole = not (lengths.is_floating_point() or lengths.dtype == torch.bool)
    if not whole or lengths.shape != (B,):
        rule = f"lengths must hold an integer for each of the {B} sequences"
        came = f"it is {lengths.dtype} of shape {tuple(lengths.shape)}"
        raise ShapeError(sentence(who, rule, came))
    readable = not (torch.compiler.is_compiling() or lengths.is_meta)
    if readable and lengths.numel() and not 0 <= lengths.min() <= lengths.max() <= T:
        rule = f"lengths must lie between 0 and the {T} positions of x"
        raise ShapeError(sentence(who, rule, f"they go from {lengths.min()} to {lengths.max()}"))
    return torch.arange(T, device=lengths.device) < lengths[:, None]
