"""Texts that would break a page, or run on it, if one of them were not escaped."""

from __future__ import annotations

from normkit.pages import Axes, Details, Page, Reference, Table, VerdictCard, loss_curves

SCRIPT = "<script>window.hacked = 1</script>"
IMAGE = '<img src=x onerror="window.hacked = 1">'
CLOSING = "</script><script>window.hacked = 1</script><!-- \u2028 \"'\\ \\u \\x {{ 7 * 7 }} {% x %}"
SERIES = f'a,"b" {IMAGE}'


def page() -> Page:
    """A page with such a text in every place that takes one."""
    axes = Axes(
        x="step",
        y="value",
        series="norm",
        facet="text",
        facet_title=CLOSING,
        x_title=IMAGE,
        y_title=CLOSING,
        series_title=SCRIPT,
    )
    rows = [
        {"step": step, "value": 3.0 - step, "norm": name, "text": SCRIPT, "seed": 0}
        for name in (SERIES, CLOSING)
        for step in range(3)
    ]
    chart = loss_curves(
        [*rows, {**rows[0], "seed": IMAGE, "value": None}],
        axes=axes,
        name="hostile",
        title=SCRIPT,
        caption=CLOSING,
        references=[Reference(value=2.0, label=IMAGE)],
    )
    return Page(
        title=SCRIPT,
        lead=IMAGE,
        verdicts=[
            VerdictCard(
                claim=SCRIPT,
                source=f"https://example.org/{IMAGE} javascript:alert(1)",
                verdict="measured",
                sentence=CLOSING,
                details={IMAGE: SCRIPT},
            )
        ],
        charts=[chart],
        tables=[Table(title=SCRIPT, columns={"a": IMAGE}, rows=[{"a": CLOSING}], caption=SCRIPT)],
        details=[Details(title=SCRIPT, items={CLOSING: IMAGE})],
    )
