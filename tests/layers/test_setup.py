"""Names of old checkpoints, gains stored as w or as w less 1, TensorFlow's momentum."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import normkit
from normkit.errors import DataError, OptionError
from normkit.layers import Gain, convert_names, torch_momentum


def vectors(*keys: str, width: int = 4) -> dict[str, Any]:
    """Give every key a tensor of its own."""
    return {key: torch.rand(width) for key in keys}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("ln.gamma", "ln.beta"), ("ln.weight", "ln.bias")),
        (("ln.a_2", "ln.b_2"), ("ln.weight", "ln.bias")),
        (("b.LayerNorm.gamma", "b.LayerNorm.beta"), ("b.LayerNorm.weight", "b.LayerNorm.bias")),
        (("b/LayerNorm/beta", "b/LayerNorm/gamma"), ("b/LayerNorm/bias", "b/LayerNorm/weight")),
        (("gamma", "beta"), ("weight", "bias")),
        (
            ("bn/gamma:0", "bn/beta:0", "bn/moving_mean:0", "bn/moving_variance:0"),
            ("bn/weight", "bn/bias", "bn/running_mean", "bn/running_var"),
        ),
        # Keras without centring, and without scaling.
        (
            ("bn.gamma", "bn.moving_mean", "bn.moving_variance"),
            ("bn.weight", "bn.running_mean", "bn.running_var"),
        ),
        (
            ("bn.beta", "bn.moving_mean", "bn.moving_variance"),
            ("bn.bias", "bn.running_mean", "bn.running_var"),
        ),
    ],
)
def test_renamed(old: tuple[str, ...], new: tuple[str, ...]) -> None:
    """Last components alone, in the old order, every tensor the same object."""
    state = vectors(*old)
    converted, report = convert_names(state)
    assert tuple(converted) == new
    assert report.renamed == dict(zip(old, new, strict=True))
    assert report.left == ()
    assert all(converted[report.renamed[key]] is value for key, value in state.items())
    assert tuple(state) == old


@pytest.mark.parametrize(
    "key",
    ["layer_scale.gamma", "block.gamma", "head.beta", "norm.a_2", "norm.b_2", "x.moving_mean"],
)
def test_left_without_a_sibling(key: str) -> None:
    """A gamma alone may be a LayerScale (transformers#29554): it keeps its name, and is named."""
    state = vectors(key, "block.weight", "head.weight", "other.beta_fast")
    converted, report = convert_names(state)
    assert list(converted) == list(state)
    assert report.renamed == {}
    assert report.left == (key,)
    assert f"{key} kept its name: nothing beside it says norm" in str(report)


def test_left_where_the_shapes_differ() -> None:
    """A beta of another size belongs to something else."""
    state = {"x.gamma": torch.ones(4), "x.beta": torch.zeros(1)}
    converted, report = convert_names(state)
    assert list(converted) == list(state)
    assert report.left == ("x.gamma", "x.beta")


def test_names_that_only_contain_gamma_or_beta() -> None:
    """Substrings were renamed too (transformers#29554, #35615): here whole last components are."""
    keys = ("gamma_net.weight", "ln.gamma_1", "ln.beta_1", "beta.gamma.weight", "layers.gammas.0")
    converted, report = convert_names(vectors(*keys))
    assert tuple(converted) == keys
    assert report.renamed == {}
    assert report.left == ()


def test_values_that_are_no_tensors_pass_through() -> None:
    """Counters, extra state, and whatever else a checkpoint holds."""
    state: dict[str, Any] = {"step": 3, "gamma": 0.1, "beta": 0.2, "extra": {"gamma": 1}}
    converted, report = convert_names(state)
    assert converted == state
    assert report.left == ("gamma", "beta")


@given(
    names=st.lists(
        st.tuples(
            st.sampled_from(["a.", "a.b.", "", "LayerNorm/"]),
            st.sampled_from(["gamma", "beta", "a_2", "b_2", "moving_mean", "weight", "other"]),
        ),
        unique=True,
    )
)
def test_no_key_is_lost(names: list[tuple[str, str]]) -> None:
    """As many keys and the same tensors, or the sentence that says which two would meet."""
    state = vectors(*(prefix + name for prefix, name in names))
    try:
        converted, report = convert_names(state)
    except DataError as error:
        assert re.fullmatch(  # noqa: PT017
            r"convert_names: no two keys may become one; '(.+)' and '(.+)' would both be '.+'\.",
            str(error),
        )
        return
    assert [id(value) for value in converted.values()] == [id(value) for value in state.values()]
    again, second = convert_names(converted)
    assert list(again) == list(converted)
    assert second.renamed == {}
    assert set(second.left) == set(report.left)


@pytest.mark.parametrize(
    ("keys", "first", "second", "new"),
    [
        (("ln.gamma", "ln.beta", "ln.weight"), "ln.weight", "ln.gamma", "ln.weight"),
        (("ln.gamma", "ln.beta", "ln.a_2", "ln.b_2"), "ln.gamma", "ln.a_2", "ln.weight"),
    ],
)
def test_two_keys_never_become_one(
    keys: tuple[str, ...], first: str, second: str, new: str
) -> None:
    """Neither onto a name that is there, nor onto one another."""
    text = (
        f"convert_names: no two keys may become one; {first!r} and {second!r} would both be"
        f" {new!r}."
    )
    with pytest.raises(DataError, match=f"^{re.escape(text)}$"):
        convert_names(vectors(*keys))


def test_a_tutorials_checkpoint_loads() -> None:
    """Into a model of ours beside a LayerScale that keeps its gamma, strictly."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.norm = normkit.LayerNorm(4)
            self.batch = normkit.BatchNorm1d(4)
            self.gamma = nn.Parameter(torch.full((4,), 1e-5))

    state = vectors("linear.bias", "norm.gamma", "norm.beta", "gamma", "batch.gamma", "batch.beta",
                    "batch.moving_mean", "batch.moving_variance")  # fmt: skip
    state["linear.weight"] = torch.rand(4, 4)
    model = Model()
    model.load_state_dict(convert_names(state)[0])
    assert torch.equal(model.norm.weight, state["norm.gamma"])
    assert torch.equal(model.norm.bias, state["norm.beta"])
    assert torch.equal(model.gamma, state["gamma"])
    assert torch.equal(model.batch.weight, state["batch.gamma"])
    assert torch.equal(model.batch.running_mean, state["batch.moving_mean"])  # type: ignore[arg-type]
    assert torch.equal(model.batch.running_var, state["batch.moving_variance"])  # type: ignore[arg-type]


def gains(*means: float, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """Make a gain of each mean."""
    shape = torch.tensor([-0.1, 0.1])
    return {f"n{i}.weight": (mean + shape).to(dtype) for i, mean in enumerate(means)}


@pytest.mark.parametrize(
    ("mean", "verdict"),
    [
        (0.0, "zero-centred"),
        (-0.2, "zero-centred"),
        (0.24, "zero-centred"),
        (0.26, "unclear"),
        (0.5, "unclear"),
        (0.74, "unclear"),
        (0.76, "plain"),
        (1.0, "plain"),
        (1.2, "plain"),
        (2.0, "unclear"),
    ],
)
def test_what_a_mean_says(mean: float, verdict: str) -> None:
    """Near 0 zero-centred, near 1 plain, else nothing."""
    _, report = convert_names(gains(mean))
    (gain,) = report.gains
    assert gain == Gain(key="n0.weight", mean=pytest.approx(mean, abs=1e-6), verdict=verdict)  # type: ignore[arg-type]
    assert report.verdict == verdict


def test_what_all_means_say_together() -> None:
    """Single gains may have moved far; matrices, numbers and batch norms are not counted."""
    state: dict[str, Any] = gains(0.4, 0.9, 1.1)
    state |= {"bn.weight": torch.full((2,), 9.0), "bn.running_mean": torch.zeros(2)}
    state |= {"prelu.weight": torch.tensor([0.25]), "linear.weight": torch.zeros(2, 2)}
    _, report = convert_names(state)
    assert [gain.verdict for gain in report.gains] == ["unclear", "plain", "plain"]
    assert report.mean == pytest.approx(0.8, abs=1e-6)
    assert report.verdict == "plain"
    assert str(report).splitlines()[-1] == "all gains: mean 0.8, plain"
    _, nothing = convert_names({"a": torch.zeros(3)})
    assert (nothing.mean, nothing.verdict, str(nothing)) == (None, "unclear", "")


@pytest.mark.parametrize(("zero_centred", "mean"), [(True, 1.0), (False, 0.0), (True, 0.5)])
def test_gains_are_converted(zero_centred: bool, mean: float) -> None:
    """The layer computes the same; what is no gain is the same object; the input stays."""
    state: dict[str, Any] = gains(mean) | {"n0.bias": torch.rand(2), "w.weight": torch.eye(2)}
    before = {key: value.clone() for key, value in state.items()}
    converted, report = convert_names(state, zero_centred=zero_centred)
    old = normkit.LayerNorm(2, zero_centred=not zero_centred)
    new = normkit.LayerNorm(2, zero_centred=zero_centred)
    old.load_state_dict({"weight": state["n0.weight"], "bias": state["n0.bias"]})
    new.load_state_dict({"weight": converted["n0.weight"], "bias": converted["n0.bias"]})
    x = torch.randn(3, 2)
    torch.testing.assert_close(new(x), old(x))
    assert report.shifted == (-1 if zero_centred else 1)
    assert str(report).splitlines()[-1] == f"{report.shifted:+d} was added to each gain"
    assert report.gains[0].mean == pytest.approx(mean, abs=1e-6)
    assert converted["n0.bias"] is state["n0.bias"]
    assert converted["w.weight"] is state["w.weight"]
    assert all(torch.equal(state[key], value) for key, value in before.items())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_the_one_is_added_in_float32_or_better(dtype: torch.dtype) -> None:
    """A bfloat16 gain of 0.001 would be 1 exactly, and be lost."""
    state = {"n.weight": torch.tensor([0.001, -0.003], dtype=dtype)}
    converted, _ = convert_names(state, zero_centred=False)
    want = state["n.weight"].double() + 1
    got = converted["n.weight"]
    assert got.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(got.double(), want, rtol=1e-7, atol=0)


@pytest.mark.parametrize(
    ("zero_centred", "mean", "verdict"), [(True, 0.02, "zero-centred"), (False, 0.98, "plain")]
)
def test_gains_are_not_converted_twice(zero_centred: bool, mean: float, verdict: str) -> None:
    """Liger-Kernel#74, vllm#31464: 1 + w applied twice loads without an error."""
    text = (
        f"convert_names: zero_centred={zero_centred} converts gains that are stored the other way;"
        f" their mean is {mean}, so they are {verdict} already. Leave zero_centred out."
    )
    with pytest.raises(DataError, match=f"^{re.escape(text)}$"):
        convert_names(gains(mean), zero_centred=zero_centred)


def test_torch_momentum() -> None:
    """TensorFlow weighs the old statistics, torch the new ones."""
    assert [torch_momentum(m) for m in (0.99, 0.999, 0.9, 1.0, 0.0)] == [0.01, 0.001, 0.1, 0.0, 1.0]
    text = "torch_momentum: tensorflow_momentum must lie in [0, 1]; tensorflow_momentum is 1.5."
    with pytest.raises(OptionError, match=f"^{re.escape(text)}$"):
        torch_momentum(1.5)


def test_exported() -> None:
    """The verb is where users look for it."""
    assert normkit.convert_names is convert_names
