"""The sentences under a chart that say what a mark stands for and what is not on it."""

from __future__ import annotations

from collections.abc import Sequence

from normkit.pages.curves import Curve, Divergence, X, most_seeds, x_text
from normkit.pages.records import Axes


def join(*sentences: str) -> str:
    """One caption of the sentences that have words.

    Example:
        >>> join("Lower is better.", "", "One seed.")
        'Lower is better. One seed.'
    """
    return " ".join(text.strip() for text in sentences if text.strip())


def place(series: str, panel: str, x: X | None = None) -> str:
    """Where something is: the series, the panel if there are several, x if it matters.

    Example:
        >>> place("no_norm", "post", 48.0)
        'no_norm (post, 48)'
    """
    parts = [part for part in (panel, "" if x is None else x_text(x)) if part]
    return f"{series} ({', '.join(parts)})" if parts else series


def seeds(names: Sequence[str]) -> str:
    """Name seeds after a comma, where they have names: ``, seed 0`` or ``, seeds 0, 2``."""
    named = [name for name in names if name]
    return f", seed{'s' if len(named) > 1 else ''} {', '.join(named)}" if named else ""


def band_words(curves: Sequence[Curve], axes: Axes, mark: str, band: str) -> str:
    """What the line (or point) and the band (or bar) are; ready intervals are the caller's."""
    if axes.low is not None:
        return ""
    counts = [point.seeds for curve in curves for point in curve.points]
    most = most_seeds(curves)
    one, many = ("seed", "seeds") if axes.seed is not None else ("value", "values")
    if most < 2:
        return f"One seed, so no {band}." if most and axes.seed is not None else ""
    count = str(most) if min(counts) == most else f"up to {most}"
    return f"{mark}: mean over {count} {many}; {band}: lowest to highest {one}."


def diverged_words(diverged: Sequence[Divergence], axes: Axes) -> str:
    """Every divergence, by series and panel: seed and place."""
    if not diverged:
        return ""
    groups: dict[tuple[str, X], list[str]] = {}
    for one in diverged:
        groups.setdefault((place(one.series, one.panel), one.x), []).append(one.seed)
    listed = "; ".join(
        f"{name} at {axes.x.replace('_', ' ')} {x_text(x)}{seeds(numbers)}"
        for (name, x), numbers in groups.items()
    )
    rest = "A mean is over the seeds that did not diverge."
    return f"Diverged (\u00d7 at the top edge): {listed}. {rest}"


def beyond_words(names: Sequence[str], high: float) -> str:
    """Which curves or points lie above the axis."""
    return f"The axis ends at {high:.3g}; above it (arrow): {', '.join(names)}." if names else ""


def thinned_words(before: Sequence[Curve], after: Sequence[Curve]) -> str:
    """Which points of long curves are drawn, when not all are."""
    longest = max((len(curve.points) for curve in before), default=0)
    drawn = max((len(curve.points) for curve in after), default=0)
    if drawn == longest:
        return ""
    return (
        f"Of the {longest:,} points of a long curve {drawn} are drawn: its first and last, and the "
        "lowest and highest of equal stretches, so no spike is lost."
    )
