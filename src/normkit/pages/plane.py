"""A drawing in pixels: no axes, x to the right, y down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from normkit.pages import style


class Plane:
    """A field of pixels that marks are placed on.

    Example:
        >>> Plane(100, 40).x("left:Q").to_dict()["scale"]
        {'domain': [0, 100], 'nice': False}
    """

    def __init__(self, width: float, height: float) -> None:
        self.width = width
        self.height = height

    def x(self, field: str) -> alt.X:
        """The horizontal place that ``field`` holds."""
        return alt.X(field, axis=None, scale=alt.Scale(domain=[0, self.width], nice=False))

    def y(self, field: str) -> alt.Y:
        """The vertical place that ``field`` holds, counted from above."""
        scale = alt.Scale(domain=[0, self.height], nice=False, reverse=True)
        return alt.Y(field, axis=None, scale=scale)

    def finished(self, layers: Sequence[alt.Chart], title: str, caption: str) -> alt.LayerChart:
        """Lay marks over each other, in the size of the plane."""
        return alt.LayerChart(
            layer=list(layers),
            width=self.width,
            height=self.height,
            title=alt.TitleParams(
                text=title, subtitle=caption, subtitleColor=style.SOFT, fontSize=14
            ),
        )


def rows(records: Sequence[Any]) -> alt.Chart:
    """A chart over plain records, kept inside the specification."""
    return alt.Chart(alt.InlineData(values=list(records)))


def own_colour(field: str) -> alt.Color:
    """A colour that the record itself names."""
    return alt.Color(field, scale=None)
