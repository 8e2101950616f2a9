"""Batches: what they hold, what they depend on, and which texts are too short."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from normkit.errors import DataError, OptionError
from normkit.lab.task import IGNORED, Batch, TaskSpec, TextTask, check_batch, stream_seed
from normkit.lab.text import Text
from tests.lab import small

T = 8
SHAPES = ("windows", "lines")


def make(shape: str, text: Text | None = None, **changes: int) -> TextTask:
    """A task on the small text."""
    spec = TaskSpec(shape=shape, length=T, validation_sequences=6, **changes)  # type: ignore[arg-type]
    return TextTask(text or small.text(), spec)


def decode(task: TextTask, ids: torch.Tensor) -> str:
    """Characters of one row; a pad is the pilcrow."""
    symbols = [*map(chr, task._symbols.tolist()), "\u00b6"]
    return "".join("" if i == IGNORED else symbols[i] for i in ids.tolist())


@pytest.mark.parametrize("shape", SHAPES)
def test_a_batch_depends_on_seed_and_step_alone(shape: str) -> None:
    """Not on the batches drawn before, not on torch's global generator."""
    first = make(shape).batch(5, seed=3, step=7)
    other = make(shape)
    for step in range(7):
        other.batch(5, seed=3, step=step)
    torch.manual_seed(99)
    again = other.batch(5, seed=3, step=7)
    assert torch.equal(first.tokens_BT, again.tokens_BT)
    for seed, step in ((3, 8), (4, 7)):
        different = other.batch(5, seed=seed, step=step).tokens_BT
        assert different.shape != first.tokens_BT.shape or not torch.equal(
            different, first.tokens_BT
        )


def test_windows_are_runs_of_the_text() -> None:
    """The target is the next character; every position is real."""
    task = make("windows")
    batch = task.batch(20, seed=0, step=0)
    assert batch.valid_BT is None
    assert batch.characters == 20 * T
    assert batch.tokens_BT.shape == (20, T)
    for tokens, targets in zip(batch.tokens_BT, batch.targets_BT, strict=True):
        run = decode(task, tokens) + decode(task, targets[-1:])
        assert run in small.text().characters
        assert torch.equal(tokens[1:], targets[:-1])


def test_lines_open_with_a_line_end_and_are_padded() -> None:
    """Pieces of at most T of a line, opened by its start; pads are no targets."""
    task = make("lines")
    batch = task.batch(30, seed=0, step=0)
    assert batch.valid_BT is not None
    assert len(set(batch.valid_BT.sum(1).tolist())) > 2  # of varying length
    assert batch.tokens_BT.shape[1] == batch.valid_BT.sum(1).max() <= T
    assert batch.characters == batch.valid_BT.sum() == (batch.targets_BT != IGNORED).sum()
    assert bool(((batch.tokens_BT == task.pad) == ~batch.valid_BT).all())
    characters = "\n" + small.text().characters + "\n"
    for tokens, targets, valid in zip(*batch[:3], strict=True):
        count = int(valid.sum())
        assert bool(valid[:count].all())  # pads stand at the end
        assert decode(task, tokens[:count]) + decode(task, targets[count - 1 : count]) in characters
        assert torch.equal(tokens[1:count], targets[: count - 1])


def every_piece(task: TextTask) -> list[str]:
    """All training pieces, drawn until they repeat."""
    starts, lengths = task._train
    batch = task._gather(starts, lengths)
    return [decode(task, row[row != IGNORED]) for row in batch.targets_BT]


def test_long_lines_are_cut_and_nothing_is_lost() -> None:
    """The pieces of the training part, one after the other, are its lines."""
    task = make("lines")
    pieces = "".join(every_piece(task))
    assert ("\n" + small.text().characters).startswith("\n" + pieces)
    assert len(pieces) > 0.85 * len(small.text().characters)


def test_empty_lines_are_left_out() -> None:
    """An empty line teaches nothing and would be a row of one position."""
    text = Text("gaps", None, "abc\n\n\nde\n" * 30)
    batch = make("lines", text).batch(50, seed=0, step=0)
    assert batch.valid_BT is not None
    assert set(batch.valid_BT.sum(1).tolist()) == {3, 4}


def test_no_piece_has_one_position() -> None:
    """A line of T + 1 is cut in the middle: one position alone would have no variance."""
    text = Text("long", None, "abcdefgh\n" * 40)  # 8 characters and a line end: 9 targets
    batch = make("lines", text).batch(50, seed=0, step=0)
    assert batch.valid_BT is not None
    assert set(batch.valid_BT.sum(1).tolist()) == {4, 5}


@pytest.mark.parametrize("shape", SHAPES)
def test_training_never_sees_the_validation_part(shape: str) -> None:
    """The end of the text has symbols of its own, which no training batch holds."""
    head = small.text().characters
    text = Text("two parts", None, head + "\n" + "XYZ\n" * (len(head) // 28))
    task = make(shape, text)
    late = {index for index, one in enumerate(task._symbols.tolist()) if chr(one) in "XYZ"}
    starts, lengths = task._train
    batch = task._gather(starts, lengths)
    cut = len(text.characters) - len(text.characters) // 10
    assert "X" in text.characters[:cut]  # the cut lies inside the XYZ lines
    assert int((starts + lengths).max()) < len(task._data) - len(text.characters) // 10
    held = torch.cat([part.targets_BT.flatten() for part in task.validation(2)]).tolist()
    assert late <= set(held)
    assert set(held) - {IGNORED} <= {*late, int((task._symbols == ord("\n")).nonzero())}
    assert batch.targets_BT.max() <= task.pad


@pytest.mark.parametrize("shape", SHAPES)
def test_validation_is_fixed_whatever_the_batch(shape: str) -> None:
    """The same sequences in the same order, cut differently."""

    def rows(batches: list[Batch]) -> list[list[int]]:
        return [row[row != IGNORED].tolist() for part in batches for row in part.targets_BT]

    task = make(shape)
    assert rows(task.validation(1)) == rows(task.validation(4))
    assert len(rows(task.validation(4))) == task.validation_count == 6


@pytest.mark.parametrize(("shape", "extra"), [("windows", 0), ("lines", 1)])
def test_vocabulary(shape: str, extra: int) -> None:
    """Every character of the text; lines have a pad beside."""
    assert make(shape).vocabulary == len(set(small.text().characters)) + extra


def test_lines_without_a_line_end() -> None:
    """A text of one line still has its start and its end."""
    task = make("lines", Text("one", None, "abcdefgh" * 40))
    assert task.vocabulary == 8 + 2


@given(st.integers(0, 9), st.sampled_from(["init", "batch", "dropout"]), st.integers(0, 99))
def test_stream_seeds_differ(seed: int, stream: str, step: int) -> None:
    """Neighbours in every direction have other seeds, all of which torch takes."""
    value = stream_seed(seed, stream, step)
    assert value not in {stream_seed(seed + 1, stream, step), stream_seed(seed, stream, step + 1)}
    assert value != stream_seed(seed, stream + "2", step)
    torch.Generator().manual_seed(value)


def test_short_texts_are_refused() -> None:
    """The sentence says how many characters are needed; that many are enough."""
    with pytest.raises(DataError) as caught:
        make("windows", Text("t.txt", None, "x" * 89))
    assert str(caught.value) == (
        "compare: text must have at least 90 characters for windows of 8; 't.txt' has 89. "
        "Give a longer text."
    )
    assert make("windows", Text("t.txt", None, "x" * 90)).validation_count == 1
    with pytest.raises(DataError) as caught:
        make("lines", Text("t.txt", None, "abc\nabc"))
    assert str(caught.value) == (
        "compare: text must have lines to train on and, in its last tenth, lines to validate on; "
        "'t.txt' has 7 characters. Give a longer text."
    )


def test_a_batch_larger_than_the_text_is_refused() -> None:
    """The sentence says what fits; that does fit."""
    text = Text("t.txt", None, "abcdefgh" * 20)
    task = make("windows", text)
    with pytest.raises(DataError) as caught:
        check_batch(task, 19, text)
    assert str(caught.value) == (
        "compare: a batch must not be larger than the training text; batch_size is 19, "
        "'t.txt' has 18 windows. Try batch_size=18 or less, or a longer text."
    )
    check_batch(task, 18, text)
    lines = Text("t.txt", None, "abc\n" * 20)
    with pytest.raises(DataError) as caught:
        check_batch(make("lines", lines), 19, lines)
    assert str(caught.value) == (
        "compare: a batch must not be larger than the training text; batch_size is 19, "
        "'t.txt' has 18 lines. Try batch_size=18 or less, or a longer text."
    )


def test_an_unknown_shape_is_refused() -> None:
    """The vocabulary of shapes is closed."""
    with pytest.raises(OptionError) as caught:
        TaskSpec(shape="words")  # type: ignore[arg-type]
    assert str(caught.value) == ("TaskSpec: shape must be 'windows' or 'lines'; shape is 'words'.")
