"""The comparison that needs no recipe: what the options name, against its first arm."""

from __future__ import annotations

import dataclasses
import itertools

from normkit.lab.config import ModelSpec, TrainingSpec
from normkit.lab.recipe import Claim, Grid, Recipe, difference
from normkit.lab.task import TaskSpec
from normkit.lab.words import place_words

NAME = "compare"

TEMPLATE = Recipe(
    name=NAME,
    title="Which norm, and where?",
    question="Which of these trains best?",
    task=TaskSpec(shape="windows", length=64),
    model=ModelSpec(width=64, heads=4),
    training=TrainingSpec(steps=400, interval=50, warmup_steps=20, clip_norm=1.0),
    grid=Grid(norm=("layer_norm", "batch_norm", "rms_norm"), batch_size=(32,)),
)


def with_claims(recipe: Recipe) -> Recipe:
    """Claim, for every arm of the grid but the first, that it validates better than the first.

    Example:
        >>> grid = Grid(norm=("layer_norm", "rms_norm"))
        >>> recipe = with_claims(dataclasses.replace(TEMPLATE, grid=grid))
        >>> [claim.statement for claim in recipe.claims]
        ['RMSNorm, Pre-norm validates better than LayerNorm, Pre-norm']
    """
    arms = [
        {"norm": norm, "placement": placement}
        for norm, placement in itertools.product(recipe.grid.norm, recipe.grid.placement)
    ]
    first = arms[0]
    claims = tuple(
        Claim(
            statement=f"{place_words(arm)} validates better than {place_words(first)}",
            source="asked by this comparison",
            quantity=f"validation loss of {place_words(arm)} minus that of {place_words(first)}",
            terms=difference("validation_loss", arm, first),
            relation="below",
        )
        for arm in arms[1:]
    )
    return dataclasses.replace(recipe, claims=claims)
