"""``normkit.compare``: train, judge, draw. The Python twin of ``normkit compare``."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from normkit.errors import DataError, StateError, sentence
from normkit.lab import folder
from normkit.lab.config import RunConfig
from normkit.lab.display import Display
from normkit.lab.grid import adjusted, check_runs, expand
from normkit.lab.options import Options, Values, make_options, merged, positive
from normkit.lab.pool import Outcome, Pool
from normkit.lab.recipe import Recipe
from normkit.lab.recipes import find, free
from normkit.lab.result import Comparison, read_comparison
from normkit.lab.run import versions
from normkit.lab.task import TextTask
from normkit.lab.text import Text, load_text


def compare(
    *,
    recipe: str | None = None,
    text: str | Path | None = None,
    norm: Values[str] = None,
    placement: Values[str] = None,
    depth: Values[int] = None,
    batch_size: Values[int] = None,
    lr: Values[float] = None,
    dtype: Values[str] = None,
    seeds: int | None = None,
    steps: int | None = None,
    accumulate: int | None = None,
    jobs: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    console: Console | None = None,
) -> Comparison:
    """Train a language model with every norm and placement asked for, and judge the claims.

    Args:
        recipe: ``demo``, ``ln-vs-bn`` or ``depth``; None compares the norms and placements given.
        text: a UTF-8 file; None takes Python's own help topics.
        norm, placement, depth, batch_size, lr, dtype: values for the axes of the grid: one, a
            sequence, or a string with commas (``"layer_norm,rms_norm"``). None: the recipe's.
        seeds: how many seeds, from 0.
        steps: updates of each run.
        accumulate: pieces that each batch is cut into for one update.
        jobs: runs side by side; None is one per CPU core.
        out: a new folder; None takes the next free one under ``runs/``.
        resume: go on in ``out``: finished runs stay, others continue from their checkpoint. The
            other options come from the folder; ``seeds`` may be raised.
        console: where progress is shown; None is stderr.

    Returns:
        Verdicts, rankings, runs and paths; ``print`` shows the verdicts first.

    Raises:
        OptionError, DataError, StateError: one sentence; then nothing was written.

    Example:
        >>> found = compare(norm="rms_norm", steps=2, seeds=1, out="one-run")
        >>> [run.status for run in found.runs], found.page.name
        (['finished'], 'page.html')
    """
    options = make_options(
        recipe=recipe,
        text=text,
        norm=norm,
        placement=placement,
        depth=depth,
        batch_size=batch_size,
        lr=lr,
        dtype=dtype,
        seeds=seeds,
        steps=steps,
        accumulate=accumulate,
    )
    side_by_side = positive("jobs", _cores() if jobs is None else jobs)
    plan = _resumed(options, out) if resume else _new(options, out, side_by_side)
    return _execute(plan, side_by_side, console or Console(stderr=True))


@dataclass(frozen=True)
class _Plan:
    out: Path
    options: Options
    recipe: Recipe
    text: Text
    threads: int
    configs: list[RunConfig]
    new: bool

    def to_dict(self) -> dict[str, Any]:
        return {
            "recipe": self.recipe.name,
            "options": self.options.to_dict(),
            "text": self.text.summary(),
            "threads": self.threads,
            "versions": {**versions(), "threads": self.threads},
            "runs": [config.id for config in self.configs],
        }


def _new(options: Options, out: str | Path | None, jobs: int) -> _Plan:
    name = options.recipe or free.NAME
    path = folder.new_name(name) if out is None else Path(out)
    # Bits depend on the number of threads, so it belongs to the comparison, not to the call.
    threads = max(1, _cores() // jobs)
    folder.check_new(path)
    return _plan(path, options, threads, new=True)


def _resumed(options: Options, out: str | Path | None) -> _Plan:
    if out is None:
        rule = "resume needs the folder to go on in"
        raise StateError(sentence("compare", rule, "out is missing", "Add --out DIR"))
    if options.text is not None:
        options = dataclasses.replace(options, text=str(Path(options.text).resolve()))
    stored = folder.read_plan(Path(out))
    before = Options.from_dict(stored["options"])
    plan = _plan(Path(out), merged(before, options), stored["threads"], new=False)
    if plan.text.sha256 != stored["text"]["sha256"]:
        rule = "resume needs the text that the folder was started with"
        came = f"'{plan.text.name}' is another text now"
        raise DataError(sentence("compare", rule, came))
    gone = sorted(set(stored["runs"]) - {config.id for config in plan.configs})
    if gone:
        rule = "resume needs the recipe that the folder was started with"
        came = f"this version of normkit has no run {gone[0]}"
        raise StateError(sentence("compare", rule, came))
    return plan


def _plan(out: Path, options: Options, threads: int, *, new: bool) -> _Plan:
    base = free.TEMPLATE if options.recipe is None else find(options.recipe)
    recipe = adjusted(base, options)
    if options.recipe is None:
        recipe = free.with_claims(recipe)
    text = load_text(options.text)
    configs = expand(recipe, text)
    check_runs(configs, TextTask(text, recipe.task), text)
    options = dataclasses.replace(options, text=text.path)
    return _Plan(out, options, recipe, text, threads, configs, new)


def _execute(plan: _Plan, jobs: int, console: Console) -> Comparison:
    from normkit.lab import page  # draws with libraries that no worker process should wait for

    with folder.locked(plan.out):
        if plan.new:  # again, now that nobody else can write: another process may have been faster
            folder.check_new(plan.out)
        folder.write_json(plan.out / folder.PLAN, plan.to_dict())
        outcomes = _train(plan, jobs, console)
        failed = tuple(outcome for outcome in outcomes if outcome.status == "failed")
        found = read_comparison(plan.out, plan.recipe, plan.configs, plan.text)
        found = dataclasses.replace(found, failed=failed)
        page.write(found)
    return found


def _train(plan: _Plan, jobs: int, console: Console) -> list[Outcome]:
    waiting = [
        config
        for config in plan.configs
        if folder.read_result(folder.run_folder(plan.out, config.id)) is None
    ]
    pool = Pool(plan.out, text=plan.text.path, threads=plan.threads)
    steps = {config.id: config.training.steps for config in waiting}
    try:
        with Display(steps, console) as display:
            return pool.run(waiting, jobs=jobs, listener=display)
    except KeyboardInterrupt:
        hint = f"Stopped. To go on: normkit compare --out {plan.out} --resume"
        console.print(hint, highlight=False, markup=False, soft_wrap=True)
        raise


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
