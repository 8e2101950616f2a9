"""How the runs go, while they go: one live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from normkit.lab.pool import Outcome


class Display:
    """Told how runs go (it is a :class:`normkit.lab.pool.Listener`); shows it on ``console``.

    In a terminal: a line for each run that is going (step, loss, tokens/s, time left) above one
    for the whole. Elsewhere: a plain line when a run starts and when it ends.

    Args:
        steps: how many steps each run has to make.
        console: where to show it.
    """

    def __init__(self, steps: dict[str, int], console: Console) -> None:
        self._console = console
        self._steps = steps
        self._done = 0
        self._live: _LiveTable | None = _LiveTable(steps, console) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    def started(self, run: str) -> None:
        """A worker took the run."""
        if self._live:
            self._live.started(run)
        else:
            self._line(f"start    {run}")

    def progress(self, run: str, step: int, loss: float, tokens_per_s: float) -> None:
        """Move its bar."""
        if self._live:
            self._live.progress(run, step, loss, tokens_per_s)

    def ended(self, outcome: Outcome) -> None:
        """Say how it ended."""
        self._done += 1
        if self._live:
            self._live.ended(outcome)
        word = {"finished": "done", "diverged": "diverged", "failed": "FAILED"}[outcome.status]
        self._line(f"{word:<9}{outcome.run}{_ending(outcome)} ({self._done}/{len(self._steps)})")

    def _line(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


class _LiveTable:
    def __init__(self, steps: dict[str, int], console: Console) -> None:
        self._steps = steps
        self._runs = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("loss {task.fields[loss]}"),
            TextColumn("{task.fields[speed]}"),
            _TimeLeft(),
            console=console,
        )
        self._whole = Progress(
            TextColumn("all runs"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[done]}/{task.fields[count]} done"),
            _TimeLeft(),
            console=console,
        )
        self._total = self._whole.add_task("", total=sum(steps.values()), done=0, count=len(steps))
        self._tasks: dict[str, TaskID] = {}
        self._at: dict[str, int] = {}
        self._live = Live(
            Group(self._runs, self._whole), console=console, refresh_per_second=4, transient=True
        )

    def start(self) -> None:
        self._live.start()

    def stop(self) -> None:
        self._live.stop()

    def started(self, run: str) -> None:
        total = self._steps[run]
        task = self._runs.add_task(run, total=total, loss="   -  ", speed="")
        self._tasks[run] = task

    def progress(self, run: str, step: int, loss: float, tokens_per_s: float) -> None:
        self._move(run, step)
        speed = f"{tokens_per_s:,.0f} tokens/s"
        self._runs.update(self._tasks[run], completed=step, loss=f"{loss:.4f}", speed=speed)

    def ended(self, outcome: Outcome) -> None:
        self._move(outcome.run, self._steps[outcome.run])
        self._runs.remove_task(self._tasks.pop(outcome.run))
        done = self._whole.tasks[0].fields["done"] + 1
        self._whole.update(self._total, done=done)

    def _move(self, run: str, step: int) -> None:
        """Count every step once for the whole, a diverged run as if it had gone to its end."""
        self._whole.update(self._total, advance=step - self._at.get(run, 0))
        self._at[run] = step


class _TimeLeft(ProgressColumn):
    """Time left at the mean speed so far."""

    def render(self, task: Task) -> Text:
        if not task.completed or not task.elapsed or task.total is None:
            return Text("time left    -")
        seconds = round(task.elapsed / task.completed * (task.total - task.completed))
        return Text(f"time left {seconds // 60}:{seconds % 60:02d}")


def _ending(outcome: Outcome) -> str:
    if outcome.status == "failed":
        return f": {outcome.error}"
    at = f" at step {outcome.step}" if outcome.status == "diverged" else ""
    return f"{at}, {outcome.tokens_per_s:,.0f} tokens/s"
