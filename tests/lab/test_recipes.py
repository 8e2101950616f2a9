"""Recipes as data: every name in them exists, and every claim can be judged on its own grid."""

from __future__ import annotations

import dataclasses
import random

import pytest

from normkit.errors import OptionError
from normkit.lab.config import AXES
from normkit.lab.grid import adjusted, check_runs, expand
from normkit.lab.judge import RunSummary, judge
from normkit.lab.measures import MEASURES
from normkit.lab.options import Options
from normkit.lab.recipe import Claim, Grid, Recipe
from normkit.lab.recipes import RECIPES, find, free
from normkit.lab.task import TextTask
from normkit.lab.text import load_text

ALL: dict[str, Recipe] = {**RECIPES, "free": free.with_claims(free.TEMPLATE)}


def summaries(recipe: Recipe) -> list[RunSummary]:
    """The runs of a recipe, with measures drawn at random."""
    draw = random.Random(0)
    return [
        RunSummary(config, "finished", 1, {name: draw.random() for name in MEASURES})
        for config in expand(recipe, load_text())
    ]


@pytest.mark.parametrize("name", ALL)
def test_every_run_can_be_built(name: str) -> None:
    """Norms, placements, sizes and batches fit."""
    recipe, text = ALL[name], load_text()
    configs = expand(recipe, text)
    check_runs(configs, TextTask(text, recipe.task), text)
    assert recipe.name == RECIPES.get(name, free.TEMPLATE).name


@pytest.mark.parametrize("name", ALL)
def test_every_claim_is_judged(name: str) -> None:
    """On its own grid no claim lacks a run, and each has its words."""
    recipe = ALL[name]
    verdicts = judge(recipe.claims, summaries(recipe), {"unigram": 3.0, "bigram": 2.0})
    assert len(verdicts) >= len(recipe.claims) > 0
    for verdict in verdicts:
        assert verdict.interval is not None
        assert len(verdict.differences) == recipe.seeds
    for claim in recipe.claims:
        assert claim.statement
        assert claim.source
        assert not claim.statement.endswith(".")
        for term in claim.terms:
            assert term.measure in MEASURES
            assert set(term.where) <= set(AXES)


@pytest.mark.parametrize("name", ALL)
def test_charts_and_ranks_name_measures(name: str) -> None:
    """And axes of the grid."""
    recipe = ALL[name]
    axes = {field.name for field in dataclasses.fields(Grid)}
    assert recipe.rank_by in MEASURES
    assert all(chart.measure in MEASURES and chart.axis in axes for chart in recipe.charts)


def test_depth_is_the_setting_that_was_published() -> None:
    """Width 32, FFN 64, T 32, batch 16, Adam at 1e-3 without warm-up, 200 steps, 3 seeds."""
    recipe = find("depth")
    training = recipe.training
    assert (recipe.model.width, recipe.model.ffn_width, recipe.model.dropout) == (32, 64, 0.0)
    assert (recipe.task.shape, recipe.task.length) == ("windows", 32)
    assert (training.steps, training.warmup_steps, training.weight_decay) == (200, 0, 0.0)
    assert (training.clip_norm, training.accumulation) == (None, 1)
    assert (recipe.grid.batch_size, recipe.grid.lr) == ((16,), (1e-3,))
    assert set(recipe.grid.placement) == {"post", "pre", "deepnorm"}
    assert {2, 48} <= set(recipe.grid.depth)
    assert (recipe.tail, recipe.seeds) == (20, 3)
    assert {claim.threshold for claim in recipe.claims} == {-0.06, -0.4}


def test_ln_vs_bn_says_that_batch_statistics_leak() -> None:
    """The note that makes its training losses readable."""
    recipe = find("ln-vs-bn")
    assert (recipe.model.width, recipe.model.heads, recipe.grid.depth) == (128, 4, (2,))
    assert recipe.grid.batch_size == (32, 4, 2)
    assert recipe.task.shape == "lines"
    assert "leak the future" in " ".join(recipe.notes)
    assert "not comparable" in " ".join(recipe.notes)


def test_the_free_comparison_claims_against_its_first_arm() -> None:
    """Every other arm, in the order given."""
    options = Options(norm=("rms_norm", "no_norm"), placement=("post", "pre"))
    claims = free.with_claims(adjusted(free.TEMPLATE, options)).claims
    assert [claim.statement for claim in claims] == [
        "RMSNorm, Pre-norm validates better than RMSNorm, Post-norm",
        "no norm, Post-norm validates better than RMSNorm, Post-norm",
        "no norm, Pre-norm validates better than RMSNorm, Post-norm",
    ]


def test_an_unknown_recipe_is_refused() -> None:
    """The sentence lists those that exist."""
    with pytest.raises(OptionError) as caught:
        find("deep")
    assert str(caught.value) == (
        "compare: recipe must be 'demo', 'ln-vs-bn' or 'depth'; recipe is 'deep'."
    )


def test_an_unknown_relation_is_refused() -> None:
    """In a claim, before anything is trained."""
    with pytest.raises(OptionError) as caught:
        Claim(
            statement="s",
            source="s",
            quantity="q",
            terms=(),
            relation="over",  # type: ignore[arg-type]
        )
    assert str(caught.value) == (
        "Claim: relation must be 'above', 'below' or 'within'; relation is 'over'."
    )
