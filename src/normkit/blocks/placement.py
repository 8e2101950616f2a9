"""The residual connection: every placement of the registry is one walk through these lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

from torch import Tensor, nn

from normkit.blocks.norm import TokenNorm, make_norm
from normkit.errors import OptionError, choices, sentence
from normkit.spec import PLACEMENTS, PlacementSpec, ResidualScale
from normkit.spec.placement import Branch


class Residual(nn.Module):
    """One residual connection around a branch f, driven by a :class:`PlacementSpec`.

    ``y = norm_sum(skip_scale * x + branch_scale * dropout(norm_out(f(norm_in(x)))))``

    where a norm that the spec does not name for this branch is left out (the attribute is None).

    Args:
        spec: where norms stand; see :func:`check_placement` for what is built.
        branch: which branch this one is.
        norm: name of the norm in the registry.
        width: D, features of a token.
        alpha: the skip scale that rule ``deepnorm`` stands for.
        dropout: probability with which an element of the branch is dropped, before the add.

    Example:
        >>> import torch
        >>> pre = PlacementSpec(norm_in=("ffn",))
        >>> around = Residual(pre, "ffn", norm="rms_norm", width=4)
        >>> around(torch.ones(1, 1, 4), lambda x: 2 * x)
        tensor([[[3., 3., 3., 3.]]], grad_fn=<AddBackward0>)
    """

    def __init__(
        self,
        spec: PlacementSpec,
        branch: Branch,
        *,
        norm: str,
        width: int,
        alpha: float = 1.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_placement(spec)

        def norm_if(places: tuple[Branch, ...]) -> TokenNorm | None:
            return make_norm(norm, width) if branch in places else None

        self.norm_in = norm_if(spec.norm_in)
        self.norm_out = norm_if(spec.norm_out)
        self.norm_sum = norm_if(spec.norm_sum)
        self.dropout = nn.Dropout(dropout)
        self.skip_scale = _factor(spec.skip_scale, branch, alpha)
        self.branch_scale = _factor(spec.branch_scale, branch, alpha)

    def forward(
        self, x_BTD: Tensor, f: Callable[[Tensor], Tensor], valid_BT: Tensor | None = None
    ) -> Tensor:
        """Add ``f`` to the stream; ``valid_BT`` (True at real tokens) goes to the norms."""
        y: Tensor = x_BTD if self.norm_in is None else self.norm_in(x_BTD, valid_BT)
        y = f(y)
        y = y if self.norm_out is None else self.norm_out(y, valid_BT)
        y = self.dropout(y)
        # A factor of 1 costs no operation.
        y = y if self.branch_scale == 1.0 else self.branch_scale * y
        skip = x_BTD if self.skip_scale == 1.0 else self.skip_scale * x_BTD
        y = skip + y
        return y if self.norm_sum is None else self.norm_sum(y, valid_BT)

    def extra_repr(self) -> str:
        """Show the scales beside the norms."""
        return f"skip_scale={self.skip_scale:.6g}, branch_scale={self.branch_scale:.6g}"


def _factor(scale: ResidualScale, branch: Branch, alpha: float) -> float:
    if branch not in scale.branches:
        return 1.0
    # check_placement has refused a constant without a value.
    return alpha if scale.rule == "deepnorm" else cast(float, scale.value)


def check_placement(spec: PlacementSpec, name: str | None = None) -> None:
    """Refuse a placement with a field that these blocks do not build.

    Built are ``norm_in``, ``norm_out``, ``norm_sum``, ``embedding_norm``, ``final_norm``, constant
    scales, DeepNorm's skip scale and its initial weights. What a spec says of cross attention
    changes nothing here: these models have none.

    Args:
        spec: the placement.
        name: its name in the registry, for the sentence.

    Raises:
        OptionError: naming each field that is not built, and the placements that are.

    Example:
        >>> check_placement(PLACEMENTS["peri"].spec)
    """
    left = dict(_not_built(spec))
    if left:
        built = [entry.name for entry in PLACEMENTS.values() if not dict(_not_built(entry.spec))]
        who = "PlacementSpec" if name is None else f"placement {name!r}"
        rule = f"the blocks do not build its {' and '.join(left)}"
        came = " and ".join(f"{field} is {value!r}" for field, value in left.items())
        raise OptionError(sentence(who, rule, came, f"Try placement {choices(built)}"))


def _not_built(spec: PlacementSpec) -> Iterator[tuple[str, object]]:
    """Give each field, with its value, that would have to be ignored."""
    if spec.norm_inside:
        yield "norm_inside", spec.norm_inside
    if spec.head_scale:
        yield "head_scale", spec.head_scale
    if spec.streams != 1:
        yield "streams", spec.streams
    if spec.second_stream_scale != 1.0:
        yield "second_stream_scale", spec.second_stream_scale
    # DeepNorm has a formula for the skip alone.
    scales = (("skip_scale", ("constant", "deepnorm")), ("branch_scale", ("constant",)))
    for field, rules in scales:
        scale: ResidualScale = getattr(spec, field)
        if scale.rule not in rules:
            yield f"{field}.rule", scale.rule
        elif scale.rule == "constant" and scale.value is None:
            yield f"{field}.value", None
    for role in ("ffn", "value", "output", "query_key"):
        if getattr(spec.init, role) == "sub_ln":
            yield f"init.{role}", "sub_ln"
