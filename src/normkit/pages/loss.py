"""Curves over training: a line for the mean over seeds, a band from lowest to highest."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from normkit.pages import captions, channels, data, drawing, ranges
from normkit.pages.curves import (
    Curves,
    Divergence,
    Row,
    collect,
    first_divergences,
    have_bands,
)
from normkit.pages.records import Axes, Chart, Reference, refuse
from normkit.pages.thinning import thin_all


def loss_curves(
    rows: Sequence[Row],
    *,
    axes: Axes,
    name: str,
    title: str,
    caption: str = "",
    references: Sequence[Reference] = (),
) -> Chart:
    """Draw one curve for each series, in one panel for each value of the facet.

    The line is the mean over seeds at each step, the band goes from the lowest to the highest
    seed. A value that is None, NaN or inf is a divergence: a cross at the top edge, and named in
    the caption. The axis ends below values that explode (:mod:`normkit.pages.ranges`); an arrow
    and the caption name them. Long curves are thinned by the rule of
    :mod:`normkit.pages.thinning`.

    Raises:
        ValueError: no rows, a missing column, two rows for one place, a category for x.

    Example:
        >>> rows = [{"step": s, "value": 1 / (s + 1), "norm": "rms_norm"} for s in range(9)]
        >>> axes = Axes(
        ...     x="step", x_title="step", y="value", y_title="loss (nats)", series="norm", seed=None
        ... )
        >>> loss_curves(rows, axes=axes, name="loss", title="Loss").name
        'loss'
    """
    if axes.x_scale == "category":
        raise refuse("loss_curves", "x must be a number", "x_scale is 'category'")
    found = collect(rows, axes, "loss_curves")
    diverged = first_divergences(found.divergences)
    low, high = ranges.y_range(found.curves, references, marks=bool(diverged))
    shown, above = data.below(found.curves, high)
    drawn = thin_all(shown)
    marks = [_cross(d) for d in diverged] + [
        data.arrow(curve, max(curve.points, key=lambda p: p.mean)) for curve in above
    ]
    words = captions.join(
        caption,
        captions.band_words(found.curves, axes, "Line", "band"),
        captions.diverged_words(diverged, axes),
        captions.beyond_words([captions.place(c.series, c.panel) for c in above], high),
        captions.thinned_words(shown, drawn),
    )
    block = data.data_block(drawn, marks, axes)
    layers = _layers(found, marks, axes, (low, high), references)
    spec = drawing.finished(layers, block, axes, found, title)
    return Chart(name=name, title=title, caption=words, spec=spec)


def _cross(one: Divergence) -> data.EdgeMark:
    note = f"diverged{captions.seeds([one.seed])}"
    return data.EdgeMark(series=one.series, panel=one.panel, x=one.x, note=note)


def _layers(
    found: Curves,
    marks: Sequence[data.EdgeMark],
    axes: Axes,
    y_domain: tuple[float, float],
    references: Sequence[Reference],
) -> list[alt.Chart]:
    """Band, line, reference lines, crosses, and the invisible points that answer the pointer."""
    xs = [p.x for curve in found.curves for p in curve.points] + [mark.x for mark in marks]
    x = {"x": channels.x_number(axes, xs)}
    y = channels.y_number("mean:Q", axes, y_domain)
    hue, line = channels.colour(found, axes, symbol="stroke"), channels.dash(found, axes)
    shown, bands = drawing.toggles(found), have_bands(found.curves)
    base = alt.Chart().transform_filter(shown)  # without data: a facet hands each panel its share
    curves = base.transform_filter("isValid(datum.mean)")
    layers = [
        *([_band(base, x, hue, axes, y_domain)] if bands else []),
        curves.mark_line(strokeWidth=2, clip=True).encode(**x, y=y, color=hue, strokeDash=line),
        *drawing.reference_layers(references, axes, y_domain),
        drawing.hover_layer(curves, {**x, "y": y, "color": hue}, axes, bands),
        *drawing.edge_layers(base, marks, x, hue, axes),
    ]
    return [layers[0].add_params(shown, drawing.zoom(axes)), *layers[1:]]


def _band(
    base: alt.Chart, x: channels.Channels, hue: alt.Color, axes: Axes, y_domain: tuple[float, float]
) -> alt.Chart:
    """The area between the lowest and the highest seed."""
    lowest = channels.y_number("low:Q", axes, y_domain)
    area = base.transform_filter("isValid(datum.mean)").mark_area(opacity=0.18, clip=True)
    band: alt.Chart = area.encode(**x, y=lowest, y2="high:Q", color=hue)
    return band
