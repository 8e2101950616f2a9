"""From plain records to SVG: the one place here that needs more than torch, when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from normkit.errors import MissingExtraError, needs_extra


def to_svg(title: str, drawings: Sequence[dict[str, Any]]) -> str:
    """Draw records one below the other.

    Raises:
        MissingExtraError: the packages of ``normkit[cli]`` are not installed.
    """
    try:
        from normkit.pages.drawings import draw
    except ModuleNotFoundError as error:
        text = needs_extra("Explanation.svg", "drawing needs", error)
        if text is None:
            raise
        raise MissingExtraError(text) from error
    return draw(title, drawings)
