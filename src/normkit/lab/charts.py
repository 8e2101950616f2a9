"""The charts of a comparison: rows with a series and a panel, handed to ``normkit.pages``."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from normkit.lab.judge import Place, RunSummary
from normkit.lab.measures import LOSS_UNIT, MEASURES
from normkit.lab.recipe import AxisChart
from normkit.lab.report import varied_axes
from normkit.lab.words import axis_name, place_words
from normkit.pages import Axes, Chart, Reference, interval_chart, loss_curves

Row = dict[str, Any]
SERIES_AXES = ("norm", "placement", "lr")
TRAINING_POINTS = 100  # of a training curve; each is the mean over some steps
LOG_FROM = 8  # an axis that spans more than this factor is logarithmic
CURVES: Mapping[str, tuple[str, str]] = {
    "train": ("training-loss", "Training loss"),
    "validation": ("validation-loss", "Validation loss"),
    "validation_batch_statistics": (
        "validation-loss-batch-statistics",
        "Validation loss with batch statistics",
    ),
}


class Charts:
    """Draws one comparison; a series has the same name and colour in all its charts.

    Args:
        runs: the runs that ended.
        records: the long-form records of each, by run id.
        references: entropies of the text, drawn as lines.
    """

    def __init__(
        self,
        runs: Sequence[RunSummary],
        records: Mapping[str, Sequence[Row]],
        references: Sequence[Reference],
    ) -> None:
        self.runs, self.records, self.references = runs, records, references
        varied = varied_axes(runs)
        # What is the same in all runs is said once, in the configuration, not in every name.
        different = {axis: len({getattr(r.config, axis) for r in runs}) > 1 for axis in varied}
        self.series_axes = [a for a in varied if a in SERIES_AXES and different[a]] or ["norm"]
        self.panel_axes = [a for a in varied if a not in SERIES_AXES]
        self.order = tuple(dict.fromkeys(self._series(run) for run in runs))

    def curves(self, split: str) -> Chart | None:
        """Loss against steps, one panel for each depth, batch size and dtype; None without rows."""
        block = max(1, self.runs[0].config.training.steps // TRAINING_POINTS)
        rows = [
            {**self._labels(run, self.panel_axes), "step": step, "loss": loss}
            for run in self.runs
            for step, loss in self._curve(run, split, block if split == "train" else 1)
        ]
        if not rows:
            return None
        name, title = CURVES[split]
        averaged = split == "train" and block > 1
        y_title = f"loss ({LOSS_UNIT})"
        axes = self._axes("step", "step", self.panel_axes, y="loss", y_title=y_title)
        return loss_curves(
            rows,
            axes=axes,
            name=name,
            title=title,
            caption=f"Every value is a mean over {block} steps." if averaged else "",
            references=self.references,
        )

    def against(self, chart: AxisChart) -> Chart | None:
        """A measure against an axis of the grid; None where no run has the measure."""
        panels = [axis for axis in self.panel_axes if axis != chart.axis]
        rows = [
            {
                **self._labels(run, panels),
                chart.axis: getattr(run.config, chart.axis),
                "value": run.measures[chart.measure],
            }
            for run in self.runs
            if chart.measure in run.measures
        ]
        if not rows:
            return None
        measure = MEASURES[chart.measure]
        losses = measure.unit == LOSS_UNIT and chart.measure != "step_spread"
        axes = self._axes(
            chart.axis,
            axis_name(chart.axis),
            panels,
            y_title=f"{measure.title} ({measure.unit})",
            scale=_scale([row[chart.axis] for row in rows]),
        )
        return interval_chart(
            rows,
            axes=axes,
            name=f"{chart.measure}-by-{chart.axis}".replace("_", "-"),
            title=chart.title,
            caption=chart.caption,
            references=self.references if losses else (),
        )

    def _curve(self, run: RunSummary, split: str, block: int) -> Iterator[tuple[int, float]]:
        rows = [
            (row["step"], math.nan if row["value"] is None else row["value"])
            for row in self.records[run.config.id]
            if row["metric"] == "loss" and row["split"] == split
        ]
        for first in range(0, len(rows), block):
            part = rows[first : first + block]
            yield part[-1][0], statistics.fmean(value for _, value in part)

    def _labels(self, run: RunSummary, panels: Sequence[str]) -> Row:
        place = {axis: getattr(run.config, axis) for axis in panels}
        return {"run": self._series(run), "panel": place_words(place), "seed": run.config.seed}

    def _series(self, run: RunSummary) -> str:
        place: Place = {axis: getattr(run.config, axis) for axis in self.series_axes}
        return place_words(place)

    def _axes(
        self,
        x: str,
        x_title: str,
        panels: Sequence[str],
        *,
        y: str = "value",
        y_title: str,
        scale: Literal["linear", "log"] = "linear",
    ) -> Axes:
        return Axes(
            x=x,
            x_title=x_title,
            y=y,
            y_title=y_title,
            series="run",
            series_title=", ".join(map(axis_name, self.series_axes)),
            facet="panel" if panels else None,
            seed="seed",
            x_scale=scale,
            series_order=self.order,
        )


def _scale(values: Sequence[float]) -> Literal["linear", "log"]:
    return "log" if max(values) / min(values) >= LOG_FROM else "linear"
