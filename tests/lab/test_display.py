"""Progress: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from normkit.lab.display import Display
from normkit.lab.pool import Outcome

STEPS = {"first": 100, "second": 50}
ENDS = [
    Outcome("first", "finished", 100, 1234.5),
    Outcome("second", "diverged", 7, 99.0),
    Outcome("third", "failed", error="OSError: no space"),
]
LINES = [
    "done     first, 1,234 tokens/s (1/2)",
    "diverged second at step 7, 99 tokens/s (2/2)",
    "FAILED   third: OSError: no space (3/2)",
]


def console(*, terminal: bool) -> Console:
    """A console that remembers."""
    return Console(file=io.StringIO(), force_terminal=terminal, width=150, color_system=None)


def printed(on: Console) -> str:
    """What it remembers, without control codes."""
    assert isinstance(on.file, io.StringIO)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", on.file.getvalue())


def test_plain_lines() -> None:
    """A line for a start and for an end; progress says nothing."""
    on = console(terminal=False)
    with Display(STEPS, on) as display:
        display.started("first")
        display.progress("first", 50, 2.0, 1000.0)
        for outcome in ENDS:
            display.ended(outcome)
    assert printed(on).splitlines() == ["start    first", *LINES]
    assert "\x1b" not in printed(on)


def test_live_table() -> None:
    """Run, step, loss, tokens/s and time left, and the whole below."""
    on = console(terminal=True)
    with Display(STEPS | {"third": 10}, on) as display:
        display.started("first")
        display.started("second")
        display.progress("first", 50, 2.34567, 12345.6)
        on.print(display._live and display._live._live.renderable)
    text = printed(on)
    for words in ("first", "50/100", "loss 2.3457", "12,346 tokens/s", "time left 0:00"):
        assert words in text
    for words in ("second", "0/50", "all runs", "0/3 done"):
        assert words in text


def test_live_ends() -> None:
    """A run that ended leaves the table and stays as a line; a diverged one counts as done."""
    on = console(terminal=True)
    with Display(STEPS, on) as display:
        display.started("first")
        display.started("second")
        for outcome in ENDS[:2]:
            display.ended(outcome)
        live = display._live
        assert live is not None
        assert live._runs.tasks == []
        assert live._whole.tasks[0].completed == 150
        assert live._whole.tasks[0].fields["done"] == 2
    assert all(line in printed(on) for line in LINES[:2])


def test_brackets_are_no_markup() -> None:
    """An error may hold anything."""
    on = console(terminal=False)
    with Display(STEPS, on) as display:
        display.ended(Outcome("first", "failed", error="KeyError: '[bold]'"))
    assert "KeyError: '[bold]'" in printed(on)


@pytest.mark.parametrize("terminal", [False, True])
def test_an_error_closes_the_display(terminal: bool) -> None:
    """The cursor comes back whatever happens."""
    on = console(terminal=terminal)
    display = Display(STEPS, on)
    with pytest.raises(KeyboardInterrupt), display:
        raise KeyboardInterrupt
    assert not (display._live and display._live._live.is_started)
