"""RunConfig: one identity for one computation, and JSON both ways."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normkit.errors import OptionError
from normkit.lab.config import AXES, ModelSpec, RunConfig, TrainingSpec
from normkit.lab.task import TaskSpec
from tests.lab import small

configs = st.builds(
    RunConfig,
    norm=st.sampled_from(["layer_norm", "rms_norm"]),
    placement=st.sampled_from(["pre", "post"]),
    depth=st.integers(1, 99),
    batch_size=st.integers(1, 99),
    lr=st.floats(1e-9, 1.0),
    dtype=st.sampled_from(["float32", "bfloat16", "float64"]),
    seed=st.integers(0, 9),
    task=st.builds(
        TaskSpec, length=st.integers(1, 99), shape=st.sampled_from(["windows", "lines"])
    ),
    model=st.builds(ModelSpec, ffn_width=st.none() | st.integers(1, 99)),
    training=st.builds(
        TrainingSpec,
        betas=st.tuples(st.floats(0, 1), st.floats(0, 1)),
        clip_norm=st.none() | st.floats(0.1, 9),
    ),
)


@given(configs)
def test_json_both_ways(config: RunConfig) -> None:
    """What is read is what was written, and has the same id."""
    again = RunConfig.from_json(config.to_json())
    assert again == config
    assert again.id == config.id


def test_the_id_is_readable_and_stable() -> None:
    """Folders of earlier versions keep their names as long as the configuration says the same."""
    config = RunConfig(norm="rms_norm", placement="pre", depth=2)
    assert config.id == "rms_norm-pre-depth2-batch32-lr0.001-float32-seed0-35a94021"


CHANGES: list[dict[str, Any]] = [
    {"norm": "rms_norm"},
    {"placement": "post"},
    {"depth": 3},
    {"batch_size": 5},
    {"lr": 1.0000001e-3},
    {"dtype": "float64"},
    {"seed": 1},
    {"shape": "lines"},
    {"model": {"width": 16}},
    {"training": {"steps": 7}},
    {"training": {"accumulation": 2}},
    {"training": {"clip_norm": None}},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_any_change_is_another_run(change: dict[str, Any]) -> None:
    """Nothing that a run computes with is left out of its id."""
    assert small.config(**change).id != small.config().id


def test_axes_are_fields() -> None:
    """The axes of a grid are the plain fields, in order; all others are shared specs."""
    names = [field.name for field in dataclasses.fields(RunConfig)]
    assert tuple(names[: len(AXES)]) == AXES
    assert names[len(AXES) :] == ["task", "model", "training"]


def test_an_unknown_dtype_is_refused() -> None:
    """float16 would need loss scaling; the lab does not train in it."""
    with pytest.raises(OptionError) as caught:
        small.config(dtype="float16")
    assert str(caught.value) == (
        "compare: dtype must be 'float32', 'bfloat16' or 'float64'; dtype is 'float16'."
    )
