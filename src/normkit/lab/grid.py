"""From a recipe and options to the list of runs."""

from __future__ import annotations

import dataclasses
import itertools

import torch

from normkit.blocks import CausalLM
from normkit.errors import OptionError, sentence
from normkit.lab.config import AXES, RunConfig
from normkit.lab.model import transformer_config
from normkit.lab.options import Options
from normkit.lab.recipe import Grid, Recipe
from normkit.lab.task import TextTask, check_batch
from normkit.lab.text import Text


def adjusted(recipe: Recipe, options: Options) -> Recipe:
    """Put the options in the place of the recipe's own values."""
    axes = [field.name for field in dataclasses.fields(Grid)]
    given = {axis: getattr(options, axis) for axis in axes}
    grid = dataclasses.replace(recipe.grid, **{a: v for a, v in given.items() if v is not None})
    steps = options.steps or recipe.training.steps
    training = dataclasses.replace(
        recipe.training,
        steps=steps,
        interval=min(recipe.training.interval, steps),
        accumulation=options.accumulate or recipe.training.accumulation,
    )
    seeds = options.seeds or recipe.seeds
    return dataclasses.replace(recipe, grid=grid, training=training, seeds=seeds)


def expand(recipe: Recipe, text: Text) -> list[RunConfig]:
    """Every run of a recipe, each once.

    Seeds come one after the other, so that what is done early can be compared; within a seed the
    deepest models come first, so that no long run is left over at the end.
    """
    task = dataclasses.replace(recipe.task, text_sha256=text.sha256)
    grid = dataclasses.asdict(recipe.grid) | {"seed": range(recipe.seeds)}
    configs = {}
    for values in itertools.product(*(grid[axis] for axis in AXES)):
        axes = dict(zip(AXES, values, strict=True))
        config = RunConfig(task=task, model=recipe.model, training=recipe.training, **axes)
        configs[config.id] = config
    return sorted(configs.values(), key=lambda c: (c.seed, -c.depth, -c.batch_size))


def check_runs(configs: list[RunConfig], task: TextTask, text: Text) -> None:
    """Raise, before anything is written, what any of the runs would raise.

    Raises:
        OptionError: a model that cannot be built, or a batch that cannot be cut into pieces.
        DataError: a batch larger than the text.
    """
    built = set()
    for config in configs:
        check_batch(task, config.batch_size, text)
        accumulation = config.training.accumulation
        if config.batch_size % accumulation:
            rule = "accumulate must divide batch_size"
            came = f"batch_size is {config.batch_size} and accumulate is {accumulation}"
            raise OptionError(sentence("compare", rule, came))
        if (config.norm, config.placement) not in built:
            built.add((config.norm, config.placement))
            shallow = dataclasses.replace(config, depth=1)
            with torch.device("meta"):
                CausalLM(transformer_config(shallow, task.vocabulary))
