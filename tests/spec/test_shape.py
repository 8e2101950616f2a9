"""Shapes are checked before any tensor exists, and a wrong one is a sentence with its remedy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from normkit.errors import ShapeError
from normkit.spec import as_shape, validate

sizes = st.integers(min_value=1, max_value=4)
shapes = st.lists(sizes, min_size=1, max_size=5).map(tuple)


@pytest.mark.parametrize(
    "given_as",
    [(2, 3), [2, 3], torch.Size([2, 3]), (np.int64(2), np.int32(3)), iter([2, 3]), range(2, 4)],
    ids=lambda value: type(value).__name__,
)
def test_every_kind_of_sequence(given_as: object) -> None:
    """A tuple, list, Size, numpy integers, an iterator: all become a tuple of Python ints."""
    shape = as_shape("LayerNorm", given_as)  # type: ignore[arg-type]
    assert shape == (2, 3)
    assert {type(size) for size in shape} == {int}


@pytest.mark.parametrize("given_as", [8, np.int64(8)], ids=["int", "numpy"])
def test_one_number(given_as: object) -> None:
    """One number is one axis."""
    assert as_shape("LayerNorm", given_as) == (8,)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (
            2.5,
            "normalized_shape must be an integer or a sequence of integers; it is 2.5.",
        ),
        (
            (2, 3.0),
            "normalized_shape must be an integer or a sequence of integers; it is (2, 3.0).",
        ),
        (
            "8",
            "normalized_shape must be an integer or a sequence of integers; it is '8'.",
        ),
        (
            None,
            "normalized_shape must be an integer or a sequence of integers; it is None.",
        ),
        (
            (),
            "normalized_shape must name at least one axis; it is (). "
            "Try normalized_shape=x.shape[-1].",
        ),
        (0, "every size in normalized_shape must be at least 1; it is (0,)."),
        ((2, -3), "every size in normalized_shape must be at least 1; it is (2, -3)."),
    ],
)
def test_wrong_normalized_shape(wrong: object, text: str) -> None:
    """What is no shape is refused in one sentence."""
    with pytest.raises(ShapeError) as caught:
        as_shape("LayerNorm", wrong)  # type: ignore[arg-type]
    assert str(caught.value) == f"LayerNorm: {text}"


@pytest.mark.parametrize(
    ("shape", "wanted", "text"),
    [
        (
            (4, 3, 2),
            (2, 3),
            "the last 2 axes of x must be (2, 3); x is (4, 3, 2). "
            "Try normalized_shape=(3, 2), or x.transpose(-1, -2).",
        ),
        (
            (8, 5, 16),
            5,
            "the last axis of x must be 5; x is (8, 5, 16). "
            "Try normalized_shape=16, or x.transpose(-1, -2).",
        ),
        (
            (5, 8, 16),
            5,
            "the last axis of x must be 5; x is (5, 8, 16). "
            "Try normalized_shape=16, or x.transpose(-1, -3).",
        ),
        (
            (8, 16),
            5,
            "the last axis of x must be 5; x is (8, 16). Try normalized_shape=16.",
        ),
        (
            (3,),
            (2, 3),
            "the last 2 axes of x must be (2, 3); x is (3,). "
            "Give x at least 2 axes, or a normalized_shape of at most 1.",
        ),
        (
            (7, 0),
            5,
            "the last axis of x must be 5; x is (7, 0).",
        ),
        (
            (5, 0),
            5,
            "the last axis of x must be 5; x is (5, 0). Try x.transpose(-1, -2).",
        ),
    ],
)
def test_wrong_shape(shape: tuple[int, ...], wanted: int | tuple[int, ...], text: str) -> None:
    """The axes, what came, and what to type."""
    with pytest.raises(ShapeError) as caught:
        validate(shape, wanted)
    assert str(caught.value) == f"LayerNorm: {text}"


def test_who() -> None:
    """The sentence opens with the layer that was called."""
    with pytest.raises(ShapeError, match=r"^RMSNorm: the last axis of x must be 3; x is \(4,\)\."):
        validate((4,), 3, who="RMSNorm")


@given(front=st.lists(st.integers(0, 4), max_size=3), wanted=shapes)
def test_any_leading_axes(front: list[int], wanted: tuple[int, ...]) -> None:
    """Whatever stands in front, empty axes too, the end decides."""
    assert validate((*front, *wanted), wanted) == wanted


@given(shape=shapes, wanted=shapes)
def test_agrees_with_torch(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """It accepts exactly what torch's own layer_norm accepts."""
    x = torch.zeros(shape)
    try:
        torch.nn.functional.layer_norm(x, wanted)
        accepted = True
    except RuntimeError:
        accepted = False
    try:
        ours = validate(shape, wanted) == wanted
    except ShapeError:
        ours = False
    assert ours == accepted


@pytest.mark.parametrize("shape", list(itertools.permutations((2, 3, 5)))[1:], ids=str)
def test_the_remedy_works(shape: tuple[int, ...]) -> None:
    """What the sentence says to type makes the call right."""
    with pytest.raises(ShapeError) as caught:
        validate(shape, (3, 5))
    tries = str(caught.value).partition("Try ")[2].removesuffix(".").split(", or ")
    for line in tries:
        if line.startswith("normalized_shape="):
            assert validate(shape, eval(line.partition("=")[2]))
        else:
            moved = eval(line, {"x": torch.zeros(shape)})
            assert validate(moved.shape, (3, 5)) == (3, 5)


@pytest.mark.parametrize(
    ("shape", "move"),
    [
        ((2, 5, 3), "x.transpose(-1, -2)"),
        ((3, 2, 5), "x.transpose(-2, -3)"),
        ((5, 3, 2), "x.transpose(-1, -3)"),
    ],
)
def test_the_move_is_offered(shape: tuple[int, ...], move: str) -> None:
    """Where one transposition is enough, the sentence names it."""
    with pytest.raises(ShapeError) as caught:
        validate(shape, (3, 5))
    assert str(caught.value).endswith(f", or {move}.")
