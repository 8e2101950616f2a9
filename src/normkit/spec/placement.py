"""PlacementSpec: where norms stand in a residual stack, and how its branches are scaled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from normkit.errors import check_choice

Branch = Literal["attention", "cross_attention", "ffn"]
ScaleRule = Literal["constant", "deepnorm", "admin", "learned_scalar", "learned_vector"]
InitRule = Literal["one", "deepnorm", "sub_ln"]

ALL_BRANCHES: tuple[Branch, ...] = ("attention", "cross_attention", "ffn")


@dataclass(frozen=True, kw_only=True)
class ResidualScale:
    """A factor on the skip or on the branch.

    Attributes:
        rule: a ``constant``; computed from the depth (``deepnorm``) or from a first pass
            (``admin``); one learned number (ReZero) or one per feature (LayerScale).
        value: the constant, or the value that training starts from; None follows the source's own
            table of depths (LayerScale: 0.1 up to 18 layers, 1e-5 up to 24, 1e-6 beyond).
        branches: where it acts.
    """

    rule: ScaleRule = "constant"
    value: float | None = 1.0
    branches: tuple[Branch, ...] = ALL_BRANCHES

    def __post_init__(self) -> None:
        """Refuse a rule outside the vocabulary."""
        rules = ("constant", "deepnorm", "admin", "learned_scalar", "learned_vector")
        check_choice("ResidualScale", "rule", self.rule, rules)


@dataclass(frozen=True, kw_only=True)
class InitGain:
    """Factor on the initial weights, by the role that a matrix plays."""

    ffn: InitRule = "one"
    value: InitRule = "one"
    output: InitRule = "one"
    query_key: InitRule = "one"

    def __post_init__(self) -> None:
        """Refuse a rule outside the vocabulary."""
        for role in ("ffn", "value", "output", "query_key"):
            check_choice("InitGain", role, getattr(self, role), ("one", "deepnorm", "sub_ln"))


@dataclass(frozen=True, kw_only=True)
class PlacementSpec:
    """Where norms stand in a residual stack. With f a branch (attention, FFN) and N a norm:

    =============  ==========================================================
    norm_in        ``x + f(N(x))``
    norm_out       ``x + N(f(x))``
    norm_sum       ``N(x + f(x))``
    norm_inside    before the last matrix of f (attention output, second FFN)
    =============  ==========================================================

    Each of the four names the branches that have it. Scales make
    ``skip_scale * x + branch_scale * f(x)``.

    Attributes:
        head_scale: a learned factor per attention head (NormFormer).
        streams: 1, or 2 where a second, never normalised stream runs beside (ResiDual).
        second_stream_scale: factor on what the second stream adds up (guards half precision).
        embedding_norm, final_norm: a norm after the embedding; before the head.
        init: factors on the initial weights.

    Example:
        >>> PlacementSpec(norm_in=ALL_BRANCHES, final_norm=True).streams
        1
    """

    norm_in: tuple[Branch, ...] = ()
    norm_out: tuple[Branch, ...] = ()
    norm_sum: tuple[Branch, ...] = ()
    norm_inside: tuple[Branch, ...] = ()
    skip_scale: ResidualScale = field(default_factory=ResidualScale)
    branch_scale: ResidualScale = field(default_factory=ResidualScale)
    head_scale: bool = False
    streams: Literal[1, 2] = 1
    second_stream_scale: float = 1.0
    embedding_norm: bool = False
    final_norm: bool = False
    init: InitGain = field(default_factory=InitGain)

    def __post_init__(self) -> None:
        """Refuse values outside the vocabulary."""
        for name in ("norm_in", "norm_out", "norm_sum", "norm_inside"):
            for branch in getattr(self, name):
                check_choice("PlacementSpec", name, branch, ALL_BRANCHES)
        check_choice("PlacementSpec", "streams", self.streams, (1, 2))
