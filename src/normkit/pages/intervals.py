"""Means with intervals over a setting: depth, batch size, learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from normkit.pages import captions, channels, data, drawing, ranges
from normkit.pages.curves import Curves, Divergence, Row, collect, have_bands
from normkit.pages.records import Axes, Chart, Reference

# Up to this many values of x each has its own tick.
MOST_TICKS = 12


def interval_chart(
    rows: Sequence[Row],
    *,
    axes: Axes,
    name: str,
    title: str,
    caption: str = "",
    references: Sequence[Reference] = (),
    joined: bool = True,
) -> Chart:
    """Draw a point with a bar for each x and series, and a line that joins the points.

    Without ``joined`` there is no line: where the places on x have no order, it would mean nothing.

    The point is the mean over seeds and the bar goes from the lowest to the highest seed, or from
    ``axes.low`` to ``axes.high`` where the rows bring their own interval. A value that is None,
    NaN or inf is a divergence: a cross at the top edge, and named in the caption; a value far
    above all others is an arrow there.

    Raises:
        ValueError: no rows, a missing column, two rows for one place.

    Example:
        >>> rows = [{"depth": d, "loss": 2.1, "norm": "rms_norm", "seed": 0} for d in (2, 12, 48)]
        >>> axes = Axes(x="depth", x_title="layers", x_scale="log", y="loss",
        ...             y_title="loss (nats/character)", series="norm")
        >>> interval_chart(rows, axes=axes, name="depth", title="Loss by depth").caption
        'One seed, so no bar.'
    """
    found = collect(rows, axes, "interval_chart")
    low, high = ranges.y_range(found.curves, references, marks=bool(found.divergences))
    shown, above = data.below(found.curves, high)
    marks = _crosses(found.divergences) + [data.arrow(c, p) for c in above for p in c.points]
    words = captions.join(
        caption,
        captions.band_words(found.curves, axes, "Point", "bar"),
        captions.diverged_words(found.divergences, axes),
        captions.beyond_words(
            [captions.place(c.series, c.panel, p.x) for c in above for p in c.points], high
        ),
    )
    block = data.data_block(shown, marks, axes)
    shown_series = drawing.toggles(found)
    layers = _layers(found, marks, axes, (low, high), references, shown_series)
    layers = layers if joined else layers[1:]
    layers[0] = layers[0].add_params(shown_series, drawing.zoom(axes))
    spec = drawing.finished(layers, block, axes, found, title)
    return Chart(name=name, title=title, caption=words, spec=spec)


def _crosses(divergences: Sequence[Divergence]) -> list[data.EdgeMark]:
    """One cross for each place, with all its seeds."""
    seeds: dict[tuple[str, str, float | str], list[str]] = {}
    for one in divergences:
        seeds.setdefault((one.series, one.panel, one.x), []).append(one.seed)
    return [
        data.EdgeMark(series=series, panel=panel, x=x, note=f"diverged{captions.seeds(names)}")
        for (series, panel, x), names in seeds.items()
    ]


def _x(found: Curves, axes: Axes) -> dict[str, Any]:
    """The x channel; on a category axis the series of one category stand side by side."""
    if axes.x_scale == "category":
        # Domains, and no sort=: Vega-Lite writes the names of a sort into an expression, unescaped.
        names = alt.Scale(domain=list(found.categories))
        x = alt.X("x:N", scale=names, title=axes.x_title, axis=alt.Axis(labelAngle=0))
        beside = alt.XOffset("series:N", scale=alt.Scale(domain=list(found.series)))
        return {"x": x, "xOffset": beside}
    xs = [p.x for c in found.curves for p in c.points] + [d.x for d in found.divergences]
    return {"x": channels.x_number(axes, xs, ticks=len(set(xs)) <= MOST_TICKS)}


def _layers(
    found: Curves,
    marks: Sequence[data.EdgeMark],
    axes: Axes,
    y_domain: tuple[float, float],
    references: Sequence[Reference],
    shown: alt.Parameter,
) -> list[alt.Chart]:
    """Joining line, bar, point, reference lines, edge marks, points that answer the pointer."""
    x, hue = _x(found, axes), channels.colour(found, axes)
    bands = have_bands(found.curves)
    base = alt.Chart().transform_filter(shown)  # without data: a facet hands each panel its share
    means = base.transform_filter("isValid(datum.mean)")
    y, lowest = (channels.y_number(column, axes, y_domain) for column in ("mean:Q", "low:Q"))
    bar = means.mark_rule(strokeWidth=2, clip=True)
    line = means.mark_line(strokeWidth=1.5, opacity=0.55, clip=True)
    layers = [
        line.encode(**x, y=y, color=hue, strokeDash=channels.dash(found, axes)),
        *([bar.encode(**x, y=lowest, y2="high:Q", color=hue)] if bands else []),
        means.mark_point(filled=True, size=60, opacity=1, clip=True).encode(
            **x, y=y, color=hue, shape=channels.shape(found, axes)
        ),
        *drawing.reference_layers(references, axes, y_domain),
        drawing.hover_layer(means, {**x, "y": y, "color": hue}, axes, bands),
        *drawing.edge_layers(base, marks, x, hue, axes),
    ]
    return layers
