"""Layers that all charts share, what the pointer does, and the panels around them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

import altair as alt

from normkit.pages import style
from normkit.pages.channels import Channels, place_tooltip, value_tooltip, y_number
from normkit.pages.curves import Curves
from normkit.pages.data import EdgeMark
from normkit.pages.records import Axes, Reference


def toggles(found: Curves) -> alt.Parameter:
    """Every click on a legend entry turns that series off or on; at first all are on."""
    return alt.selection_point(
        name="shown",
        fields=["series"],
        bind="legend",
        toggle="true",
        clear=False,
        value=[{"series": name} for name in found.series],
    )


def zoom(axes: Axes) -> alt.Parameter:
    """Wheel zooms, drag moves, double click resets; a category axis stays whole."""
    encodings: list[Literal["x", "y"]] = ["y"] if axes.x_scale == "category" else ["x", "y"]
    return alt.selection_interval(name="zoom", bind="scales", encodings=encodings)


def reference_layers(
    references: Sequence[Reference], axes: Axes, domain: tuple[float, float]
) -> list[alt.Chart]:
    """A dashed horizontal line for each reference, with its label and value above the line."""
    if not references:
        return []
    rows = [{"value": one.value, "label": f"{one.label} ({one.value:.4g})"} for one in references]
    base = alt.Chart(alt.InlineData(values=rows))
    y = y_number("value:Q", axes, domain)
    grey = style.REFERENCE_COLOUR
    rule = base.mark_rule(color=grey, strokeDash=[5, 4], strokeWidth=1.3, clip=True)
    label = base.mark_text(
        align="right", baseline="bottom", dx=-4, dy=-2, fontSize=11, color=grey, clip=True
    )
    return [rule.encode(y=y), label.encode(x=alt.value("width"), y=y, text="label:N")]


def hover_layer(base: alt.Chart, channels: Channels, axes: Axes, bands: bool) -> alt.Chart:
    """Points that show only under the pointer, each with its values as a tooltip."""
    near = alt.selection_point(
        name="near", on="pointermove", nearest=True, empty=False, clear="pointerout",
        fields=["series", "panel", "x"],
    )  # fmt: skip
    points: alt.Chart = base.mark_point(filled=True, size=70, clip=True).encode(
        **channels,
        opacity=alt.when(near).then(alt.value(1)).otherwise(alt.value(0)),
        tooltip=[*place_tooltip(axes), *value_tooltip(axes, bands)],
    )
    return points.add_params(near)


def edge_layers(
    base: alt.Chart, marks: Sequence[EdgeMark], x: Channels, hue: alt.Color, axes: Axes
) -> list[alt.Chart]:
    """Crosses and arrows at the top edge; ``edge`` is a distance in pixels, so zoom keeps them.

    They come last, or the cells around the points of the hover layer would take the pointer.
    """
    kinds = {mark.kind for mark in marks}
    y = alt.Y("edge:Q", scale=None, axis=None)
    tooltip = [*place_tooltip(axes), alt.Tooltip("note:N", title=" ")]
    return [
        base.transform_filter(f"datum.kind === '{kind}'")
        .mark_point(shape=shape, size=90, strokeWidth=2.5, opacity=1, clip=True)
        .encode(**x, y=y, color=hue, tooltip=tooltip)
        for kind, shape in style.EDGE_SHAPES.items()
        if kind in kinds
    ]


def finished(
    layers: Sequence[alt.Chart], data: alt.InlineData, axes: Axes, found: Curves, title: str
) -> alt.LayerChart | alt.FacetChart:
    """Lay the layers over each other, one panel for each value of the facet; title and look."""
    panels = found.panels
    chart = alt.LayerChart(
        data=data,
        layer=list(layers),
        width=style.panel_width(len(panels)),
        height=style.PANEL_HEIGHT,
    )
    # The page lays the legend and the panels out by these.
    layout = {"longestName": max(map(len, found.series)), "panels": len(panels)}
    about = {"title": title, "usermeta": layout}
    if axes.facet is None:
        return style.dressed(chart.properties(**about))
    # The heading is a computed column: Vega-Lite ignores labelExpr in the header of wrapped panels.
    # Panels stand in the order of the data by a computed column too: Vega-Lite would write the
    # names of a sort into an expression, unescaped, and takes the alphabet without a sort.
    prefix = f"{axes.facet_title}: " if axes.facet_title else ""
    order = alt.EncodingSortField(field="place", op="min")
    facet = alt.Facet("heading:N", sort=order, title=None)
    faceted = chart.facet(facet=facet, columns=min(style.PANELS_PER_ROW, len(panels)))
    headed = faceted.transform_calculate(
        heading=f"{json.dumps(prefix)} + datum.panel",
        place=f"indexof({json.dumps(panels)}, datum.panel)",
    )
    return style.dressed(headed.properties(**about))
