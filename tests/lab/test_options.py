"""Options: one form for the command line and for Python, and what they refuse."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from normkit.blocks import token_norms
from normkit.errors import OptionError, StateError, choices
from normkit.lab.options import Options, make_options, merged
from normkit.spec import NORMS

NONE = dict.fromkeys(field.name for field in dataclasses.fields(Options))


def options(**given: Any) -> Options:
    """Options with the others left out."""
    return make_options(**{**NONE, **given})


@pytest.mark.parametrize("given", ["2, 12", "2,12,2", (2, 12), [2, 12, 12], ["2", 12], {2, 12}])
def test_several_values(given: Any) -> None:
    """A string with commas, a tuple, a list, a set: each value once."""
    assert sorted(options(depth=given).depth or ()) == [2, 12]


def test_one_value() -> None:
    """A value by itself."""
    found = options(norm="rms_norm", depth=3, lr=0.1, batch_size="4")
    assert (found.norm, found.depth, found.lr, found.batch_size) == (
        ("rms_norm",),
        (3,),
        (0.1,),
        (4,),
    )


def test_left_out() -> None:
    """None means the recipe's."""
    assert options() == Options()


def test_plain_data_both_ways() -> None:
    """What ``recipe.json`` holds gives the options back, tuples included."""
    found = options(norm="rms_norm,layer_norm", lr="1e-3,3e-3", seeds=2, text="a.txt")
    data = {k: list(v) if isinstance(v, tuple) else v for k, v in found.to_dict().items()}
    assert Options.from_dict(data) == found


NORM_NAMES = choices(NORMS)
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"depth": 0}, "compare: depth must be at least 1; depth is 0."),
    ({"depth": "2,-1"}, "compare: depth must be at least 1; depth is -1."),
    ({"depth": "two"}, "compare: depth must be a whole number; depth is 'two'."),
    ({"depth": 2.5}, "compare: depth must be a whole number; depth is 2.5."),
    (
        {"depth": "2,,3"},
        "compare: depth must be a whole number; depth is ''.",
    ),
    ({"batch_size": 0}, "compare: batch_size must be at least 1; batch_size is 0."),
    ({"lr": 0}, "compare: lr must be a positive finite number; lr is 0."),
    ({"lr": "-0.1"}, "compare: lr must be a positive finite number; lr is -0.1."),
    ({"lr": "nan"}, "compare: lr must be a positive finite number; lr is nan."),
    ({"lr": "inf"}, "compare: lr must be a positive finite number; lr is inf."),
    ({"lr": "fast"}, "compare: lr must be a number; lr is 'fast'."),
    ({"seeds": 0}, "compare: seeds must be at least 1; seeds is 0."),
    ({"steps": 0}, "compare: steps must be at least 1; steps is 0."),
    ({"steps": 1.5}, "compare: steps must be a whole number; steps is 1.5."),
    ({"accumulate": 0}, "compare: accumulate must be at least 1; accumulate is 0."),
    (
        {"dtype": "float8"},
        "compare: dtype must be 'float32', 'bfloat16' or 'float64'; dtype is 'float8'.",
    ),
    ({"norm": ""}, "compare: norm must be one value or several with commas between; it is ''."),
    ({"norm": []}, "compare: norm must be one value or several with commas between; it is []."),
    (
        {"norm": "layer_norm,rmsnorm"},
        f"norm must be {NORM_NAMES}; got 'rmsnorm'. Did you mean 'rms_norm'?",
    ),
    (
        {"norm": "layer_norm,qk_norm"},
        f"compare: on tokens norm must be {choices(token_norms())};"
        " 'qk_norm' shares statistics over head.",
    ),
]


@pytest.mark.parametrize(("given", "words"), REFUSED, ids=[str(given) for given, _ in REFUSED])
def test_refused(given: dict[str, Any], words: str) -> None:
    """One sentence for each."""
    with pytest.raises(OptionError) as caught:
        options(**given)
    assert str(caught.value) == words


def test_an_unknown_placement_is_refused() -> None:
    """The sentence lists those that exist."""
    with pytest.raises(OptionError) as caught:
        options(placement="prae")
    assert str(caught.value).startswith("placement must be 'post', 'pre', 'deepnorm'")
    assert str(caught.value).endswith("got 'prae'. Did you mean 'pre'?")


def test_resume_takes_the_stored_options() -> None:
    """Left out or the same is fine; seeds may grow."""
    stored = options(recipe="demo", depth="2,4", seeds=2)
    assert merged(stored, options()) == stored
    assert merged(stored, options(recipe="demo", depth=(2, 4))) == stored
    assert merged(stored, options(seeds=3)) == options(recipe="demo", depth="2,4", seeds=3)


RESUME = "compare: resume goes on with the options that the folder was started with"
DIFFER: list[tuple[dict[str, Any], str]] = [
    ({"depth": "2,6"}, "depth was 2,4, and 2,6 came"),
    ({"steps": 9}, "steps was the recipe's, and 9 came"),
    ({"recipe": "depth"}, "recipe was demo, and depth came"),
    ({"seeds": 1}, "seeds was 2, and 1 came"),
]


@pytest.mark.parametrize(("given", "came"), DIFFER, ids=[came for _, came in DIFFER])
def test_resume_with_other_options_is_refused(given: dict[str, Any], came: str) -> None:
    """A folder holds one comparison."""
    stored = options(recipe="demo", depth="2,4", seeds=2)
    with pytest.raises(StateError) as caught:
        merged(stored, options(**given))
    assert str(caught.value) == (
        f"{RESUME} (seeds may grow); {came}. Leave it out, or choose another out."
    )
