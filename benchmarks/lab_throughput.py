"""How fast the lab trains against a bare loop over the same model.

    python benchmarks/lab_throughput.py [--recipe demo] [--rounds 15] [--steps 50]

The lab's loop draws batches that depend on (seed, step) alone, clips, keeps every loss, and at
the end of each interval appends records and replaces the checkpoint. The bare loop draws random
windows, steps, and keeps nothing. Both train the same model with the same optimiser and batch,
turn about, so that a busy machine slows both. Validation is not timed: the bare loop has none.

Prints the ratio of tokens/s in each round, their median and spread, and exits with 1 when the
median is below the floor of 0.95.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

from normkit.lab import RECIPES, RunConfig, TextTask, load_text
from normkit.lab.grid import expand
from normkit.lab.model import build_model
from normkit.lab.run import run
from normkit.lab.text import code_points
from normkit.lab.train import Trainer

FLOOR = 0.95


def lab_round(config: RunConfig, task: TextTask) -> float:
    """Tokens/s of a whole run of the lab, validation left out."""
    spent = 0.0
    evaluate = Trainer.evaluate

    def timed(self: Trainer) -> dict[str, float]:
        nonlocal spent
        start = time.perf_counter()
        losses = evaluate(self)
        spent += time.perf_counter() - start
        return losses

    Trainer.evaluate = timed  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            result = run(config, task, Path(folder), lambda *_: None)
            seconds = time.perf_counter() - start - spent
    finally:
        Trainer.evaluate = evaluate  # type: ignore[method-assign]
    return float(result["tokens"] / seconds)


def bare_round(config: RunConfig, task: TextTask) -> float:
    """Tokens/s of the shortest loop that trains the same model on the same kind of batch."""
    _, data = torch.unique(code_points(load_text().characters), return_inverse=True)
    length, steps = config.task.length, config.training.steps
    start = time.perf_counter()
    model = build_model(config, task.vocabulary)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=config.lr, weight_decay=config.training.weight_decay, fused=True
    )
    for _ in range(steps):
        offsets = torch.randint(len(data) - length - 1, (config.batch_size, 1))
        window = data[offsets + torch.arange(length + 1)]
        logits = model(window[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if config.training.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.training.clip_norm)
        optimiser.step()
    return steps * config.batch_size * length / (time.perf_counter() - start)


def measure(config: RunConfig, task: TextTask, rounds: int) -> list[float]:
    """The ratio of each round; who goes first alternates."""
    loops: list[Callable[[RunConfig, TextTask], float]] = [lab_round, bare_round]
    for loop in loops:  # warm-up
        loop(
            dataclasses.replace(config, training=dataclasses.replace(config.training, steps=5)),
            task,
        )
    ratios = []
    for number in range(rounds):
        order = loops if number % 2 == 0 else loops[::-1]
        speed = {loop.__name__: loop(config, task) for loop in order}
        lab, bare = speed["lab_round"], speed["bare_round"]
        ratios.append(lab / bare)
        print(f"round {number + 1}: lab {lab:,.0f} tokens/s, bare {bare:,.0f}, {lab / bare:.3f}")
    return ratios


def main() -> int:
    """Measure the recipe's first run."""
    parser = argparse.ArgumentParser(description="Lab throughput over a bare training loop.")
    windows = [name for name, recipe in RECIPES.items() if recipe.task.shape == "windows"]
    parser.add_argument("--recipe", choices=windows, default="demo")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=50)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    config = expand(RECIPES[chosen.recipe], load_text())[0]
    training = dataclasses.replace(config.training, steps=chosen.steps)
    config = dataclasses.replace(config, training=training)
    ratios = measure(config, TextTask(load_text(), config.task), chosen.rounds)
    median, low, high = statistics.median(ratios), min(ratios), max(ratios)
    print(f"{config.id}: lab over bare {median:.3f} (lowest {low:.3f}, highest {high:.3f})")
    print(f"floor {FLOOR}: {'met' if median >= FLOOR else 'MISSED'}")
    return 0 if median >= FLOOR else 1


if __name__ == "__main__":
    sys.exit(main())
