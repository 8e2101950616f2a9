"""Plain records in, one-file offline pages and PNG or SVG pictures out.

This room knows no model. Rows are long-form dicts; :class:`Axes` says which column is what.

    >>> rows = [{"step": s, "value": 2.0 - s / 10, "norm": "rms_norm", "seed": 0} for s in range(5)]
    >>> axes = Axes(x="step", x_title="step", y="value", y_title="loss (nats)", series="norm")
    >>> chart = loss_curves(rows, axes=axes, name="loss", title="Training loss")
    >>> page = Page(title="One run", charts=[chart])

``write_page(page, "page.html")`` and ``write_pictures(page, "pictures")`` then write the files.
"""

from __future__ import annotations

from normkit.pages.intervals import interval_chart
from normkit.pages.loss import loss_curves
from normkit.pages.pictures import write_pictures
from normkit.pages.records import (
    Axes,
    Chart,
    Details,
    Page,
    Reference,
    Table,
    VerdictCard,
)
from normkit.pages.thinning import CURVE_POINTS, thin
from normkit.pages.writing import write_page

__all__ = [
    "CURVE_POINTS",
    "Axes",
    "Chart",
    "Details",
    "Page",
    "Reference",
    "Table",
    "VerdictCard",
    "interval_chart",
    "loss_curves",
    "thin",
    "write_page",
    "write_pictures",
]
