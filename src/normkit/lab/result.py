"""What a comparison found: verdicts, rankings, runs, and where the files are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from normkit.lab import records
from normkit.lab.config import RunConfig
from normkit.lab.folder import read_result, run_folder
from normkit.lab.judge import RunSummary, Verdict, judge
from normkit.lab.measures import diverged, measure
from normkit.lab.pool import Outcome
from normkit.lab.ranking import Ranking, rank
from normkit.lab.recipe import Recipe
from normkit.lab.report import as_text
from normkit.lab.task import TextTask
from normkit.lab.text import Text


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The result of :func:`normkit.compare`.

    Attributes:
        out: folder of the comparison.
        recipe: the recipe with the options put in.
        text: what was trained on.
        verdicts: one for each claim (and each value of the axes that it leaves open).
        rankings: one for each depth, batch size and dtype.
        runs: every run that ended, with its measures.
        versions: what the runs were trained with; several values where it changed between runs.
        failed: runs that ended without a result, with the error.
    """

    out: Path
    recipe: Recipe
    text: Text
    verdicts: Sequence[Verdict]
    rankings: Sequence[Ranking]
    runs: Sequence[RunSummary]
    versions: Mapping[str, Sequence[object]] = field(default_factory=dict)
    failed: Sequence[Outcome] = ()

    @property
    def page(self) -> Path:
        """The page that shows all this."""
        return self.out / "page.html"

    def records(self) -> list[dict[str, Any]]:
        """All long-form records of all runs that ended."""
        return [row for run in self.runs for row in run_records(self.out, run.config)]

    def __str__(self) -> str:
        """Verdicts first, then who trained best, then the runs."""
        return as_text(self)


def read_comparison(
    out: Path, recipe: Recipe, configs: Sequence[RunConfig], text: Text
) -> Comparison:
    """Sum up the runs in a folder that have a result."""
    vocabulary = TextTask(text, configs[0].task).vocabulary
    results = {config: read_result(run_folder(out, config.id)) for config in configs}
    ended = {config: result for config, result in results.items() if result is not None}
    runs = [_summary(out, c, result, recipe, vocabulary) for c, result in ended.items()]
    entropies = {"unigram": text.unigram_entropy, "bigram": text.bigram_entropy}
    return Comparison(
        out=out,
        recipe=recipe,
        text=text,
        verdicts=judge(recipe.claims, runs, entropies),
        rankings=rank(runs, recipe.rank_by),
        runs=runs,
        versions=_versions(list(ended.values())),
    )


def run_records(out: Path, config: RunConfig) -> list[dict[str, Any]]:
    """The records of one run."""
    return records.read(run_folder(out, config.id) / "records.jsonl")


def _versions(results: Sequence[Mapping[str, Any]]) -> dict[str, list[object]]:
    """Every version that occurs, by name, in the order of the runs."""
    found: dict[str, list[object]] = {}
    for result in results:
        for name, value in result["versions"].items():
            if value not in found.setdefault(name, []):
                found[name].append(value)
    return found


def _summary(
    out: Path, config: RunConfig, result: Mapping[str, Any], recipe: Recipe, vocabulary: int
) -> RunSummary:
    found = measure(run_records(out, config), tail=recipe.tail)
    if result["status"] == "diverged":
        found = diverged(found, vocabulary)
    return RunSummary(config, result["status"], result["step"], found)
