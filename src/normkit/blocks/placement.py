"""The residual connection: every placement of the registry is one walk through these lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import torch
from torch import Tensor, nn

from normkit.blocks.constants import layer_scale_start
from normkit.blocks.norm import TokenNorm, make_norm
from normkit.blocks.streams import Stream, TwoStreams
from normkit.errors import OptionError, choices, sentence
from normkit.spec import PLACEMENTS, PlacementSpec, ResidualScale
from normkit.spec.placement import Branch

Sublayer: TypeAlias = Callable[[Tensor], Tensor]


class Residual(nn.Module):
    """One residual connection around a branch f, driven by a :class:`PlacementSpec`.

    ``y = branch_scale * dropout(norm_out(f(norm_in(x))))``
    ``x <- norm_sum(skip_scale * x + y)``

    where a norm that the spec does not name for this branch is left out (the attribute is None).
    Where the placement has two streams (ResiDual), the second runs beside:
    ``s <- s + second_stream_scale * y``, never scaled and never normalised here.

    A scale is a number, or a parameter: one number (ReZero's alpha) or one per feature
    (LayerScale). ``norm_inside`` and the scale of heads are the branch's own affair, see
    :class:`~normkit.blocks.SelfAttention` and :class:`~normkit.blocks.FeedForward`.

    Public code departs from the papers here and there: microsoft/ResiDual multiplies ``z`` in the
    final sum by a number of its own (1 unless set); x-transformers calls ``sandwich_norm`` what is
    ``sandwich`` here, while its ``sandwich_coef`` reorders layers.

    Args:
        spec: where norms stand; see :func:`check_placement` for what is not built.
        branch: which branch this one is.
        norm: name of the norm in the registry.
        width: D, features of a token.
        alpha: the skip scale that rule ``deepnorm`` stands for.
        dropout: probability with which an element of the branch is dropped, before the add.
        depth: layers of the stack, for a learned vector that starts from LayerScale's table.

    Example:
        >>> import torch
        >>> pre = PlacementSpec(norm_in=("ffn",))
        >>> around = Residual(pre, "ffn", norm="rms_norm", width=4)
        >>> around(torch.ones(1, 1, 4), lambda x: 2 * x)
        tensor([[[3., 3., 3., 3.]]], grad_fn=<AddBackward0>)
    """

    skip_scale: float | nn.Parameter
    branch_scale: float | nn.Parameter

    def __init__(
        self,
        spec: PlacementSpec,
        branch: Branch,
        *,
        norm: str,
        width: int,
        alpha: float = 1.0,
        dropout: float = 0.0,
        depth: int = 1,
    ) -> None:
        super().__init__()
        check_placement(spec)

        def norm_if(places: tuple[Branch, ...]) -> TokenNorm | None:
            return make_norm(norm, width) if branch in places else None

        def factor(scale: ResidualScale, table: float) -> float | nn.Parameter:
            return _factor(scale, table, width) if branch in scale.branches else 1.0

        self.norm_in = norm_if(spec.norm_in)
        self.norm_out = norm_if(spec.norm_out)
        self.norm_sum = norm_if(spec.norm_sum)
        self.dropout = nn.Dropout(dropout)
        self.skip_scale = factor(spec.skip_scale, alpha)
        self.branch_scale = factor(spec.branch_scale, layer_scale_start(depth))
        self.second_stream_scale = spec.second_stream_scale

    def forward(self, x: Stream, f: Sublayer, valid_BT: Tensor | None = None) -> Stream:
        """Add ``f`` to the stream; ``valid_BT`` (True at real tokens) goes to the norms."""
        if isinstance(x, TwoStreams):
            y_BTD = self.branch(x.main_BTD, f, valid_BT)
            second_BTD = x.second_BTD + _times(self.second_stream_scale, y_BTD)
            return TwoStreams(self.join(x.main_BTD, y_BTD, valid_BT), second_BTD)
        return self.join(x, self.branch(x, f, valid_BT), valid_BT)

    def branch(self, x_BTD: Tensor, f: Sublayer, valid_BT: Tensor | None) -> Tensor:
        """Compute what the branch adds, its norms and its scale included."""
        y: Tensor = x_BTD if self.norm_in is None else self.norm_in(x_BTD, valid_BT)
        y = f(y)
        y = y if self.norm_out is None else self.norm_out(y, valid_BT)
        return _times(self.branch_scale, self.dropout(y))

    def join(self, x_BTD: Tensor, y_BTD: Tensor, valid_BT: Tensor | None) -> Tensor:
        """Add skip and branch, and normalise the sum where the placement does."""
        total = _times(self.skip_scale, x_BTD) + y_BTD
        return total if self.norm_sum is None else self.norm_sum(total, valid_BT)

    def extra_repr(self) -> str:
        """Show the scales beside the norms."""
        scales = {"skip_scale": self.skip_scale, "branch_scale": self.branch_scale}
        return ", ".join(f"{name}={_text(value)}" for name, value in scales.items())


def _factor(scale: ResidualScale, table: float, width: int) -> float | nn.Parameter:
    """Turn a rule into a number or a parameter; ``table`` is what the source gives by depth."""
    if scale.rule == "deepnorm":
        return table
    # check_placement has refused None where no table gives the value.
    value = table if scale.value is None else scale.value
    if scale.rule == "constant":
        return value
    shape = (width,) if scale.rule == "learned_vector" else ()
    return nn.Parameter(torch.full(shape, value))


def _times(factor: float | Tensor, x: Tensor) -> Tensor:
    """Multiply; a factor of 1 costs no operation."""
    return x if isinstance(factor, float) and factor == 1.0 else factor * x


def _text(factor: float | nn.Parameter) -> str:
    if isinstance(factor, float):
        return f"{factor:.6g}"
    return "a learned number" if factor.dim() == 0 else f"{len(factor)} learned numbers"


def check_placement(spec: PlacementSpec, name: str | None = None) -> None:
    """Refuse a placement with a field that these blocks do not build.

    Every field is built, and every row of the registry. Not built are a scale by rule ``admin``,
    rule ``deepnorm`` on the branch, and None where the source has no table of depths.

    Args:
        spec: the placement.
        name: its name in the registry, for the sentence.

    Raises:
        OptionError: naming each value that is not built, and the placements that are; or a scale
            of a second stream that is not there.

    Example:
        >>> check_placement(PLACEMENTS["peri"].spec)
    """
    who = "PlacementSpec" if name is None else f"placement {name!r}"
    if spec.streams == 1 and spec.second_stream_scale != 1.0:
        rule = "second_stream_scale acts on a second stream"
        came = f"streams is 1 and second_stream_scale is {spec.second_stream_scale}"
        raise OptionError(sentence(who, rule, came, "Try streams=2"))
    left = dict(_not_built(spec))
    if left:
        rule = f"the blocks do not build its {' and '.join(left)}"
        came = " and ".join(f"{field} is {value!r}" for field, value in left.items())
        raise OptionError(sentence(who, rule, came, f"Try placement {choices(PLACEMENTS)}"))


def _not_built(spec: PlacementSpec) -> Iterator[tuple[str, object]]:
    """Give each field, with its value, that would have to be ignored."""
    learned = ("learned_scalar", "learned_vector")
    # By field: the rules that are built, and those for which the source has a table of depths.
    # Admin's scales come from a first pass over data, about which paper and public code differ.
    built = {
        "skip_scale": (("constant", "deepnorm", *learned), ("deepnorm",)),
        "branch_scale": (("constant", *learned), ("learned_vector",)),
    }
    for field, (rules, tables) in built.items():
        scale: ResidualScale = getattr(spec, field)
        if scale.rule not in rules:
            yield f"{field}.rule", scale.rule
        elif scale.value is None and scale.rule not in tables:
            yield f"{field}.value", None
