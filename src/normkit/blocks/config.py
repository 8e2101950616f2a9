"""TransformerConfig: everything that makes one of these models, checked before any tensor."""

from __future__ import annotations

from dataclasses import dataclass

from normkit.blocks.ffn import ACTIVATIONS, Activation
from normkit.blocks.norm import check_token_norm, has_gain
from normkit.blocks.placement import check_placement
from normkit.blocks.positions import PositionKind
from normkit.errors import OptionError, check_choice, sentence
from normkit.spec import PlacementSpec, placement_entry
from normkit.spec.placement import ALL_BRANCHES

WHO = "TransformerConfig"


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Sizes and choices of a Transformer.

    Attributes:
        vocabulary: number of token ids, 0 .. vocabulary - 1.
        width: D, features of a token in the residual stream.
        depth: number of layers (attention and feed-forward).
        heads: attention heads; divides ``width``.
        ffn_width: features inside the feed-forward; None is ``4 * width``.
        max_length: T at most.
        norm: a name of ``normkit.spec.NORMS`` that :func:`~normkit.blocks.token_norms` lists;
            every norm of the model is this one.
        placement: a name of ``normkit.spec.PLACEMENTS``, or a PlacementSpec.
        positions: ``learned`` or ``sinusoidal`` vectors, added to the token vectors.
        dropout: probability with which an element of a branch is dropped, after the sub-layer and
            before the residual add; nothing else is dropped.
        activation: ``gelu`` or ``relu``.
        qk_norm: normalise queries and keys of all attention per head, by an RMSNorm of their own
            whatever ``norm`` is.
        last_gain: factor on the initial gain of the norm that ends each branch, such as 0.1; at 0
            every block starts as the identity. For placements that end every branch in a norm
            (sandwich, peri).
        zero_init_branches: start the last matrix of each branch from 0, so that a branch adds
            nothing. For placements that end no branch in a norm.

    Raises:
        OptionError: one sentence for the first field that has no meaning.

    Example:
        >>> TransformerConfig(vocabulary=100, width=64).hidden
        256
    """

    vocabulary: int
    width: int = 128
    depth: int = 2
    heads: int = 4
    ffn_width: int | None = None
    max_length: int = 128
    norm: str = "layer_norm"
    placement: str | PlacementSpec = "pre"
    positions: PositionKind = "learned"
    dropout: float = 0.0
    activation: Activation = "gelu"
    qk_norm: bool = False
    last_gain: float = 1.0
    zero_init_branches: bool = False

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        for option in ("vocabulary", "width", "depth", "heads", "hidden", "max_length"):
            _check_size("ffn_width" if option == "hidden" else option, getattr(self, option))
        if self.width % self.heads:
            rule = "heads must divide width"
            came = f"width is {self.width} and heads is {self.heads}"
            fix = f"Try width={self.heads * max(1, round(self.width / self.heads))}"
            raise OptionError(sentence(WHO, rule, came, fix))
        if not 0.0 <= self.dropout < 1.0:
            rule = "dropout must lie in [0, 1)"
            raise OptionError(sentence(WHO, rule, f"dropout is {self.dropout}"))
        check_choice(WHO, "positions", self.positions, ("learned", "sinusoidal"))
        check_choice(WHO, "activation", self.activation, tuple(ACTIVATIONS))
        check_token_norm(WHO, self.norm)
        named = self.placement if isinstance(self.placement, str) else None
        check_placement(self.placement_spec, named)
        _check_start(self)

    @property
    def hidden(self) -> int:
        """Features inside the feed-forward."""
        return 4 * self.width if self.ffn_width is None else self.ffn_width

    @property
    def placement_spec(self) -> PlacementSpec:
        """The placement, looked up where it is a name."""
        if isinstance(self.placement, str):
            return placement_entry(self.placement).spec
        return self.placement


def _check_size(option: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        rule = f"{option} must be an integer of at least 1"
        raise OptionError(sentence(WHO, rule, f"{option} is {value!r}"))


def _check_start(config: TransformerConfig) -> None:
    """Refuse a start that has no effect, or from which nothing would be learned."""
    gain, zero, spec = config.last_gain, config.zero_init_branches, config.placement_spec
    if not 0.0 <= gain <= 1.0:
        raise OptionError(sentence(WHO, "last_gain must lie in [0, 1]", f"last_gain is {gain}"))
    ends = spec.norm_out if has_gain(config.norm) else ()
    all_end = set(ends) == set(ALL_BRANCHES)
    came = f"norm is {config.norm!r} and norm_out is {spec.norm_out}"
    if gain != 1.0 and not all_end:
        rule = "last_gain needs a norm with a gain at the end of every branch"
        fix = "" if ends else "Try zero_init_branches=True"
        raise OptionError(sentence(WHO, rule, came, fix))
    if zero and ends:
        # N(0) = 0, but its derivative there is 1 / sqrt(eps): the first step would be a leap.
        rule = "zero_init_branches needs branches that no norm follows"
        fix = "Try last_gain=0.0" if all_end else ""
        raise OptionError(sentence(WHO, rule, came, fix))
    scale = spec.branch_scale
    if (zero or gain == 0.0) and scale.rule != "constant" and scale.value == 0.0:
        # d(a f)/da = f and d(a f)/df = a: with both 0 neither ever gets a gradient.
        rule = "branches start from 0 by one factor, not by two"
        came = f"branch_scale starts from 0 and {'zero_init_branches' if zero else 'last_gain'} too"
        raise OptionError(sentence(WHO, rule, came, "Leave one of them out"))
