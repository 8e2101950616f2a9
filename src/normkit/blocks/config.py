"""TransformerConfig: everything that makes one of these models, checked before any tensor."""

from __future__ import annotations

from dataclasses import dataclass

from normkit.blocks.ffn import ACTIVATIONS, Activation
from normkit.blocks.placement import check_placement
from normkit.blocks.positions import PositionKind
from normkit.errors import OptionError, check_choice, sentence
from normkit.spec import PlacementSpec, norm_entry, placement_entry

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
        norm: a name of ``normkit.spec.NORMS``; every norm of the model is this one.
        placement: a name of ``normkit.spec.PLACEMENTS``, or a PlacementSpec.
        positions: ``learned`` or ``sinusoidal`` vectors, added to the token vectors.
        dropout: probability with which an element of a branch is dropped, after the sub-layer and
            before the residual add; nothing else is dropped.
        activation: ``gelu`` or ``relu``.

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
        norm_entry(self.norm)
        named = self.placement if isinstance(self.placement, str) else None
        check_placement(self.placement_spec, named)

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
