"""From recipe and options to runs: the product, each once, in an order that can stop early."""

from __future__ import annotations

import dataclasses

import pytest

from normkit.errors import DataError, OptionError
from normkit.lab.grid import adjusted, check_runs, expand
from normkit.lab.options import Options
from normkit.lab.recipe import Grid, Recipe
from normkit.lab.task import TaskSpec
from tests.lab import small

RECIPE = Recipe(
    name="small",
    title="Small",
    question="Which?",
    task=TaskSpec(length=8, validation_sequences=6),
    model=small.MODEL,
    training=small.TRAINING,
    grid=Grid(norm=("rms_norm", "layer_norm"), depth=(1, 2), batch_size=(4,)),
    seeds=2,
)


def test_the_product_once() -> None:
    """Two norms, two depths, two seeds; a value that comes twice is one run."""
    configs = expand(RECIPE, small.text())
    assert len(configs) == 8
    assert len({config.id for config in configs}) == 8
    twice = dataclasses.replace(RECIPE, grid=Grid(norm=("rms_norm", "rms_norm"), batch_size=(4,)))
    assert len(expand(twice, small.text())) == 2


def test_the_order() -> None:
    """All of one seed before the next; within a seed, the deepest first."""
    configs = expand(RECIPE, small.text())
    assert [config.seed for config in configs] == [0] * 4 + [1] * 4
    assert [config.depth for config in configs] == [2, 2, 1, 1] * 2


def test_runs_belong_to_their_text() -> None:
    """The same recipe on another text has other runs."""
    other = dataclasses.replace(small.text(), characters=small.text().characters + "!")
    ids = {config.id for config in expand(RECIPE, small.text())}
    assert not ids & {config.id for config in expand(RECIPE, other)}


def test_options_replace_values() -> None:
    """What is given replaces the recipe's, the rest stays; an interval is never over the steps."""
    options = Options(norm=("no_norm",), lr=(0.1, 0.2), seeds=1, steps=1, accumulate=2)
    found = adjusted(RECIPE, options)
    assert found.grid == dataclasses.replace(RECIPE.grid, norm=("no_norm",), lr=(0.1, 0.2))
    assert (found.seeds, found.training.steps, found.training.interval) == (1, 1, 1)
    assert found.training.accumulation == 2
    assert adjusted(RECIPE, Options()) == RECIPE


def test_more_seeds_keep_the_runs() -> None:
    """A run does not depend on how many others there are: that is how a comparison can grow."""
    few = {config.id for config in expand(RECIPE, small.text())}
    more = expand(adjusted(RECIPE, Options(seeds=3)), small.text())
    assert few < {config.id for config in more}


def check(options: Options) -> None:
    """Check the runs of the small recipe."""
    configs = expand(adjusted(RECIPE, options), small.text())
    check_runs(configs, small.task(configs[0]), small.text())


def test_a_good_grid_is_accepted() -> None:
    """Nothing is raised, and no model of full depth is built."""
    check(Options(depth=(100_000,)))


def test_a_batch_that_cannot_be_cut_is_refused() -> None:
    """Pieces are of equal size."""
    with pytest.raises(OptionError) as caught:
        check(Options(accumulate=3))
    assert str(caught.value) == (
        "compare: accumulate must divide batch_size; batch_size is 4 and accumulate is 3."
    )


def test_a_model_that_cannot_be_built_is_refused() -> None:
    """The block's own sentence, before any run starts."""
    with pytest.raises(OptionError, match="group_norm"):
        check(Options(norm=("group_norm",)))


def test_a_large_batch_is_refused() -> None:
    """Any batch of the grid."""
    with pytest.raises(DataError, match="batch_size is 100000"):
        check(Options(batch_size=(4, 100_000)))
