"""What any norm or placement of the registry does: formula, axes, cost, behaviour, picture."""

from normkit.explanation.beside import SideBySide
from normkit.explanation.explain import explain
from normkit.explanation.explanation import Explanation
from normkit.explanation.norm import NormExplanation
from normkit.explanation.placement import PlacementExplanation

__all__ = [
    "Explanation",
    "NormExplanation",
    "PlacementExplanation",
    "SideBySide",
    "explain",
]
