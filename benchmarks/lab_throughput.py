"""How fast the lab trains against a bare loop over the same model.

    python benchmarks/lab_throughput.py [--recipe demo] [--pairs 60]

The lab's loop draws batches that depend on (seed, step) alone, clips, keeps every loss, and at
the end of each interval appends records and replaces the checkpoint. The bare loop draws random
windows, steps, and keeps nothing. Both train the same model with the same optimiser and batch.
Their intervals take turns, so that whatever else the machine does meets both. Validation is not
timed: the bare loop has none.

Prints the median ratio of tokens/s over all pairs of intervals and its spread, and exits with 1
when the median is below the floor of 0.95.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from normkit.lab import RECIPES, RunConfig, TextTask, load_text
from normkit.lab.grid import expand
from normkit.lab.model import build_model
from normkit.lab.run import Run
from normkit.lab.text import code_points

FLOOR = 0.95


class Lab:
    """The lab's own loop, one interval at a time."""

    def __init__(self, config: RunConfig, task: TextTask, folder: Path) -> None:
        """Start a run in a folder."""
        self.run = Run(config, task, folder, lambda *_: None)
        self.validation_s = 0.0
        evaluate = self.run.trainer.evaluate

        def timed() -> dict[str, float]:
            start = time.perf_counter()
            losses = evaluate()
            self.validation_s += time.perf_counter() - start
            return losses

        self.run.trainer.evaluate = timed  # type: ignore[method-assign]

    def interval_s(self) -> float:
        """Train an interval; return the seconds, without those of validation."""
        before, start = self.validation_s, time.perf_counter()
        assert self.run.advance() is None, "the run diverged"
        return time.perf_counter() - start - (self.validation_s - before)


class Bare:
    """The shortest loop that trains the same model on the same kind of batch."""

    def __init__(self, config: RunConfig, task: TextTask) -> None:
        """Build model and optimiser."""
        self.config = config
        _, self.data = torch.unique(code_points(load_text().characters), return_inverse=True)
        self.model = build_model(config, task.vocabulary)
        training = config.training
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), lr=config.lr, weight_decay=training.weight_decay, fused=True
        )

    def interval_s(self) -> float:
        """Train as many steps as an interval has; return the seconds."""
        config, length = self.config, self.config.task.length
        start = time.perf_counter()
        for _ in range(config.training.interval):
            offsets = torch.randint(len(self.data) - length, (config.batch_size, 1))
            window = self.data[offsets + torch.arange(length + 1)]
            logits = self.model(window[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            if config.training.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.training.clip_norm)
            self.optimiser.step()
        return time.perf_counter() - start


def measure(config: RunConfig, task: TextTask, pairs: int) -> list[float]:
    """Tokens/s of the lab over those of the bare loop, for each pair; who is first alternates."""
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        loops = [Lab(config, task, Path(folder)), Bare(config, task)]
        for loop in loops:  # warm-up
            loop.interval_s()
        for number in range(pairs):
            first, second = (loop.interval_s() for loop in loops)
            ratios.append(second / first if number % 2 == 0 else first / second)
            loops.reverse()
    return ratios


def main() -> int:
    """Measure the first run of a recipe."""
    parser = argparse.ArgumentParser(description="Lab throughput over a bare training loop.")
    windows = [name for name, recipe in RECIPES.items() if recipe.task.shape == "windows"]
    parser.add_argument("--recipe", choices=windows, default="demo")
    parser.add_argument("--pairs", type=int, default=60)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    config = expand(RECIPES[chosen.recipe], load_text())[0]
    steps = (chosen.pairs + 2) * config.training.interval
    training = dataclasses.replace(config.training, steps=steps)
    config = dataclasses.replace(config, training=training)
    ratios = sorted(measure(config, TextTask(load_text(), config.task), chosen.pairs))
    median, low, high = (
        statistics.median(ratios),
        ratios[len(ratios) // 10],
        ratios[-len(ratios) // 10],
    )
    print(f"{config.id}: {chosen.pairs} pairs of {config.training.interval} steps")
    print(f"lab over bare, tokens/s: median {median:.3f}, 80 % of pairs in {low:.3f} .. {high:.3f}")
    print(f"floor {FLOOR}: {'met' if median >= FLOOR else 'MISSED'}")
    return 0 if median >= FLOOR else 1


if __name__ == "__main__":
    sys.exit(main())
