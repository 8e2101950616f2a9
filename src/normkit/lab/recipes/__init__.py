"""Recipes: one experiment a file, as data."""

from __future__ import annotations

from collections.abc import Mapping

from normkit.errors import OptionError, choices, sentence
from normkit.lab.recipe import Recipe
from normkit.lab.recipes import demo, depth, ln_vs_bn

RECIPES: Mapping[str, Recipe] = {
    module.RECIPE.name: module.RECIPE for module in (demo, ln_vs_bn, depth)
}


def find(name: str) -> Recipe:
    """Look a recipe up by name.

    Raises:
        OptionError: no recipe has this name.

    Example:
        >>> find("demo").name
        'demo'
    """
    if name not in RECIPES:
        rule = f"recipe must be {choices(RECIPES)}"
        raise OptionError(sentence("compare", rule, f"recipe is {name!r}"))
    return RECIPES[name]
