"""Records refuse what means nothing, in sentences."""

from __future__ import annotations

import re
from typing import Any

import altair as alt
import pytest

from normkit.pages import Axes, Chart, Page, VerdictCard

AXES: dict[str, Any] = {"x": "a", "y": "b", "series": "c", "x_title": "A", "y_title": "B"}


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: VerdictCard(claim="", source="", sentence="", verdict="true"),  # type: ignore[arg-type]
            "VerdictCard: verdict must be one of 'holds', 'does not hold here', 'undecided', "
            "'measured'; verdict is 'true'.",
        ),
        (
            lambda: Axes(**AXES, x_scale="loglog"),
            "Axes: x_scale must be one of 'linear', 'log', 'category'; x_scale is 'loglog'.",
        ),
        (
            lambda: Axes(**AXES, low="lower"),
            "Axes: low and high must be given together; low is 'lower', high is None.",
        ),
        (
            lambda: Chart(name="a/b", title="", spec=alt.Chart()),
            "Chart: name must be lower-case letters, digits, '-' and '_'; name is 'a/b'.",
        ),
        (
            lambda: Page(title="", charts=[Chart(name="a", title="", spec=alt.Chart())] * 2),
            "Page: chart names must differ; 'a' comes twice.",
        ),
    ],
)
def test_refused(make: Any, text: str) -> None:
    """The sentence says the rule and what came."""
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        make()


def test_columns_that_rows_need() -> None:
    """A seed is needed unless the rows bring their own interval."""
    assert Axes(**AXES, facet="f").columns == ("a", "b", "c", "f", "seed")
    assert Axes(**AXES, seed=None).columns == ("a", "b", "c")
    assert Axes(**AXES, low="l", high="h").columns == ("a", "b", "c", "l", "h")
