"""The explanation of a norm: parameters, cost, behaviour, errors, and the whole text."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

import normkit
from normkit.errors import NormkitError
from normkit.explanation import NormExplanation, SideBySide, explain
from normkit.explanation.cost import Cost
from normkit.explanation.layer import build
from normkit.spec import NORMS


def norm(name: str, **options: Any) -> NormExplanation:
    """The explanation of one norm."""
    found = explain(name, **options)
    assert isinstance(found, NormExplanation)
    return found


@pytest.mark.parametrize("name", NORMS)
def test_every_norm(name: str) -> None:
    """Each prints within 80 columns, says its source, and gives data that JSON holds."""
    found = norm(name)
    text = str(found)
    assert NORMS[name].source in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    assert json.loads(json.dumps(found.data()))["name"] == name
    assert len(found.worked.rows) in range(1, 9)
    assert not found.worked.refusal
    assert all(found.summary().values())


@pytest.mark.parametrize("name", NORMS)
def test_states_are_those_of_the_layer(name: str) -> None:
    """Names and shapes of parameters and buffers, without and with memory for them."""
    found = norm(name)
    layer = build(NORMS[name], found.reading)
    assert {one.name: one.shape for one in found.parameters} == {
        n: tuple(p.shape) for n, p in layer.named_parameters()
    }
    assert {one.name: one.shape for one in found.buffers} == {
        n: tuple(b.shape) for n, b in layer.named_buffers()
    }


def test_the_whole_text() -> None:
    """LayerNorm over two axes, word for word up to the example."""
    text = str(explain("layer_norm", shape=(4, 2, 3), normalized_shape=(2, 3)))
    assert text.partition("\nexample:")[0] == TEXT


TEXT = """\
LayerNorm (Ba et al. 2016, arXiv:1607.06450)
on x = (B, T, D) = 4 x 2 x 3

formula
  mean = sum(x) / n
  var = sum((x - mean)^2) / n
  y = (x - mean) / sqrt(var + eps) * weight + bias

the same with its numbers
  mean = sum(x) / 6
  var = sum((x - mean)^2) / 6
  y = (x - mean) / sqrt(var + 1e-5) * weight + bias

gradient
  g = dy * weight
  x_hat = (x - mean) / sqrt(var + eps)
  dx = (g - sum(g) / n - x_hat * sum(g * x_hat) / n) / sqrt(var + eps)

statistics
  shared    T (position), D (feature) share; each B (batch) has statistics of
            its own
  how many  4 statistics of 6 elements each

picture: 4 statistics (mean and variance), each of 6 elements
  Drawn: 4 x 2 x 3; in each panel T down, D across.
  B0         B1         B2         B3
   0  0  0    1  1  1    2  2  2    3  3  3
   0  0  0    1  1  1    2  2  2    3  3  3

parameters
  layer   LayerNorm
  weight  (2, 3)
  bias    (2, 3)

behaviour
  train         statistics of x itself
  eval          the same as in training
  batch of one  the same result as in any batch
  padding       padding enters the statistics of real positions; takes no mask
  causal use    leaks the future in training and evaluation: a position's
                statistics see later ones
  distributed   no statistic crosses a rank; gradients of parameters ride in the
                all-reduce

cost, with N the elements of x
  forward   reads 1 N and writes 1 N, 48 elements in all
  backward  reads 2 N and writes 1 N, 72 elements in all
"""


def test_the_batch_is_coupled() -> None:
    """With all three axes LayerNorm is said to couple the batch, in words and in data."""
    found = norm("layer_norm", shape=(4, 2, 3), normalized_shape=(4, 2, 3))
    assert (
        "The batch is among the shared axes: a sample's output depends on the others."
        in " ".join(str(found).split())
    )
    assert found.behaviour.batch_of_one.startswith("n falls from 24 to 6")
    assert found.behaviour.distributed.startswith("samples on other ranks are left out")
    (step,) = found.data()["steps"]
    assert (step["statistics"], step["couples_batch"]) == (1, True)


@pytest.mark.parametrize(
    ("name", "options", "reads_and_writes"),
    [
        ("layer_norm", {}, (1, 1, 2, 1)),
        ("batch_norm", {}, (2, 1, 4, 1)),
        ("group_norm", {"shape": (1, 4, 8, 8), "groups": 2}, (1, 1, 2, 1)),
        ("group_norm", {"shape": (1, 4, 512, 512), "groups": 2}, (2, 1, 4, 1)),
        ("gated_rms_norm", {}, (2, 1, 3, 2)),
        ("dynamic_tanh", {}, (1, 1, 2, 1)),
        ("power_norm", {}, (2, 2, 4, 2)),
        ("no_norm", {}, (0, 0, 0, 0)),
    ],
)
def test_cost(name: str, options: dict[str, Any], reads_and_writes: tuple[int, ...]) -> None:
    """Reads and writes forward, then backward, in multiples of x."""
    names = ("forward_reads", "forward_writes", "backward_reads", "backward_writes")
    wanted = Cost(**dict(zip(names, reads_and_writes, strict=True)))
    assert norm(name, **options).cost == wanted


@pytest.mark.parametrize(
    ("name", "options", "question", "start"),
    [
        ("layer_norm", {}, "causal", "safe"),
        ("layer_norm", {"shape": (8, 3)}, "causal", "no axis of positions"),
        ("batch_norm", {"shape": (2, 3, 4)}, "causal", "leaks the future in training, where"),
        (
            "batch_norm",
            {},
            "causal",
            "read as time, space leaks the future in training, where",
        ),
        ("batch_norm", {"shape": (1, 3)}, "batch_of_one", "this is one, with n = 1: one value has"),
        ("instance_norm", {"shape": (2, 3, 4)}, "causal", "leaks the future in training and eval"),
        ("power_norm", {}, "causal", "leaks the future in the first 10,000 updates"),
        ("layer_norm", {}, "padding", "a padded position changes no other one"),
        ("batch_norm", {}, "padding", "padding enters the statistics of real positions in train"),
        ("masked_batch_norm", {}, "padding", "give valid="),
        ("group_norm", {}, "padding", "without a mask padding enters"),
        ("batch_norm", {"shape": (8, 3)}, "batch_of_one", "n falls from 8 to 1 in training: one"),
        ("batch_norm", {}, "evaluate", "running statistics, which are constants"),
        ("instance_norm", {}, "evaluate", "the same as in training"),
        ("power_norm", {}, "train", "running statistics, known before the batch; the first 10,000"),
        ("batch_norm", {}, "distributed", "each rank uses its own part of the batch unless"),
        ("dynamic_tanh", {}, "distributed", "nothing to send"),
    ],
)
def test_behaviour(name: str, options: dict[str, Any], question: str, start: str) -> None:
    """The answers, by their beginning."""
    assert getattr(norm(name, **options).behaviour, question).startswith(start)


@pytest.mark.parametrize("name", ["layer_norm", "batch_norm", "instance_norm", "group_norm"])
def test_causal_answer_is_measured(name: str) -> None:
    """ "Leaks the future" is what the real layer does, in training and in evaluation."""
    found = (
        norm(name, shape=(2, 4, 5), groups=2)
        if name == "group_norm"
        else norm(name, shape=(2, 4, 5))
    )
    layer = build(NORMS[name], found.reading).double()
    tokens = name == "layer_norm"  # (B, T, D); the others read (B, C, T)
    x = torch.randn(2, 4, 5, dtype=torch.float64)
    later = x.clone()
    (later[:, -1] if tokens else later[..., -1]).add_(1.0)
    leaks = {}
    for mode in (True, False):
        layer.train(mode)
        with torch.no_grad():
            moved = (layer(later) - layer(x)).abs()
        leaks[mode] = bool((moved[:, 0] if tokens else moved[..., 0]).max() > 1e-9)
    told = found.behaviour.causal
    assert leaks[True] == told.startswith("leaks the future")
    assert leaks[False] == ("and evaluation:" in told)


ERRORS: list[tuple[tuple[str, ...], dict[str, Any], str]] = [
    (
        ("layer_norm",),
        {"shape": (4, 3, 2), "normalized_shape": (2, 3)},
        "LayerNorm: the last 2 axes of x must be (2, 3); x is (4, 3, 2). "
        "Try normalized_shape=(3, 2), or x.transpose(-1, -2).",
    ),
    (
        ("batch_norm",),
        {"normalized_shape": 3},
        "explain: normalized_shape belongs to layers that take it, such as LayerNorm; BatchNorm1d "
        "has no such argument. Leave it out.",
    ),
    (
        ("group_norm",),
        {"shape": (2, 6, 4, 4)},
        "GroupNorm: groups must divide the 6 channels; groups is 32. Try groups=1, 2, 3 or 6.",
    ),
    (
        ("layer_norm",),
        {"groups": 2},
        "explain: groups belongs to norms over groups of channels; LayerNorm has none. "
        "Leave it out.",
    ),
    (
        ("qk_norm",),
        {"shape": (2, 3, 4)},
        "QK-norm: q and k must be (B, H, T, d); x is (2, 3, 4). "
        "Try shape=(2, 8, 16, 64): batch, heads, positions, features of a head.",
    ),
    (
        ("instance_norm",),
        {"shape": (2, 3)},
        "InstanceNorm: x needs an axis of space, (B, C, ...); x is (2, 3). Try shape=(2, 3, 4).",
    ),
    (
        ("batch_norm",),
        {"shape": (2, 3), "channel_axis": 2},
        "explain: channel_axis must lie in [-2, 1]; channel_axis is 2.",
    ),
    (
        ("batch_norm",),
        {"shape": (2, 3, 4), "channel_axis": 0},
        "explain: axis 0 is the batch; channel_axis is 0. Try channel_axis=1 or -1.",
    ),
    (
        ("batch_norm",),
        {"shape": (3,)},
        "BatchNorm: x must be (B, C, ...); x is (3,). Try shape=(8, 3).",
    ),
    (
        ("layer_norm",),
        {"channel_axis": 1},
        "explain: channel_axis belongs to norms with channels; LayerNorm normalises the last axes; "
        "channel_axis is given. Leave it out.",
    ),
    (
        ("layer_norm",),
        {"shape": (4, 0)},
        "LayerNorm: every axis of x must hold an element; x is (4, 0).",
    ),
    (
        ("layer_norm",),
        {"shape": ()},
        "explain: x must have an axis; shape is (). Try shape=(4, 2, 3).",
    ),
    (
        ("layer_norm",),
        {"shape": (4, 2.5)},
        "explain: shape must be integers, such as (4, 2, 3); shape is (4, 2.5).",
    ),
    (("group_norm",), {"groups": True}, "explain: groups must be an integer; groups is True."),
    (
        ("batch_norm",),
        {"shape": (2, 3, 4, 4, 4, 4)},
        "BatchNorm: x has at most 3 axes beside batch and channels; x is (2, 3, 4, 4, 4, 4).",
    ),
    (
        ("layer_norm",),
        {"depth": 3},
        "explain: depth is an option of placements; layer_norm is a norm. "
        "Try shape, normalized_shape, groups or channel_axis, or leave it out.",
    ),
    (
        ("pre",),
        {"shape": (2, 3)},
        "explain: shape is an option of norms; pre is a placement. Try depth, or leave it out.",
    ),
    (
        ("pre",),
        {"depth": 0},
        "explain: depth must be an integer of at least 1; depth is 0. Try depth=12.",
    ),
    (
        ("pre", "layer_norm"),
        {},
        "explain: things of one kind stand side by side; pre is a placement and layer_norm is a "
        "norm. Explain them one by one.",
    ),
    (
        ("layer_norm", "rms_norm"),
        {"groups": 2},
        "explain: groups must be an option of one of the norms; neither layer_norm nor rms_norm "
        "has it. Leave it out.",
    ),
    (
        (),
        {},
        "explain: explain needs the name of a norm or of a placement; there is none. "
        "Try explain layer_norm.",
    ),
]


@pytest.mark.parametrize(("names", "options", "text"), ERRORS, ids=lambda value: str(value)[:40])
def test_errors(names: tuple[str, ...], options: dict[str, Any], text: str) -> None:
    """Each wrong call gets its sentence."""
    with pytest.raises(NormkitError) as caught:
        explain(*names, **options)
    assert str(caught.value) == text


def test_unknown_name() -> None:
    """One sentence over norms and placements, with the nearest name of either."""
    for wrong, right in (("layernorm", "layer_norm"), ("deep_norm", "deepnorm")):
        with pytest.raises(NormkitError) as caught:
            explain(wrong)
        text = str(caught.value)
        assert text.startswith("norm or placement must be 'layer_norm', 'rms_norm', ")
        assert text.endswith(f"or 'rezero'; got {wrong!r}. Did you mean {right!r}?")


def test_side_by_side() -> None:
    """LayerNorm and BatchNorm on one tensor of tokens: the same questions, other answers."""
    found = explain("layer_norm", "batch_norm", shape=(4, 2, 3))
    assert isinstance(found, SideBySide)
    rows = dict(found.rows)
    assert list(rows) == QUESTIONS
    assert rows["read as"] == ("(B, T, D) = (4, 2, 3)",) * 2
    assert rows["statistics"] == (
        "8 statistics of 3 elements each",
        "3 statistics of 8 elements each",
    )
    assert rows["batch of one"][0] == "the same result as in any batch"
    assert rows["batch of one"][1].startswith("n falls from 8 to 2 in training")
    assert max(map(len, str(found).splitlines())) <= 80
    assert len(found.data()["explanations"]) == 2


QUESTIONS = [
    *("formula", "read as", "axes", "statistics", "train", "eval", "batch of one", "padding"),
    *("causal use", "distributed", "parameters", "buffers", "forward", "backward"),
]


def test_side_by_side_options() -> None:
    """An option reaches the norm that has it, and the other is left alone."""
    found = explain("layer_norm", "group_norm", shape=(2, 3, 4), groups=2, normalized_shape=(3, 4))
    assert dict(found.rows)["statistics"] == (  # type: ignore[attr-defined]
        "2 statistics of 12 elements each",
        "4 statistics of 6 elements each",
    )


@pytest.mark.parametrize("other", ["group_norm", "qk_norm", "channel_layer_norm", "power_norm"])
def test_side_by_side_without_a_shape(other: str) -> None:
    """Norms that read shapes differently find one that both can take, tokens where possible."""
    rows = dict(explain("layer_norm", other).rows)  # type: ignore[attr-defined]
    tokens = "(B, T, D) = (2, 3, 4)"
    heads = "(B, H, T, d) = (2, 2, 3, 4)"
    assert rows["read as"] == (tokens, heads if other == "qk_norm" else tokens)


def test_at_the_top_of_the_package() -> None:
    """``normkit.explain`` is the function."""
    assert normkit.explain is explain
