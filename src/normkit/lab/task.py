"""Character-level language modelling as a task: batches that depend on (seed, step) alone."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from normkit.errors import DataError, check_choice, sentence
from normkit.lab.text import Text, code_points

IGNORED = -100  # the target of a pad: cross_entropy leaves it out
Shape = Literal["windows", "lines"]


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """How a text becomes sequences.

    Attributes:
        shape: ``windows`` are runs of exactly ``length`` characters; ``lines`` are lines, longer
            ones cut into pieces, padded to the longest of the batch, with a ``valid`` mask.
        length: T, the longest sequence.
        validation_fraction: the end of the text that training never sees.
        validation_sequences: how many sequences, evenly spread over that end, are evaluated.
        text_sha256: which text; part of a run's identity.
    """

    shape: Shape = "windows"
    length: int = 128
    validation_fraction: float = 0.1
    validation_sequences: int = 64
    text_sha256: str = ""

    def __post_init__(self) -> None:
        """Refuse values outside the vocabulary."""
        check_choice("TaskSpec", "shape", self.shape, ("windows", "lines"))


class Batch(NamedTuple):
    """Tokens, the tokens that follow them, which are real (None: all), and how many those are."""

    tokens_BT: Tensor
    targets_BT: Tensor
    valid_BT: Tensor | None
    characters: int


class TextTask:
    """Next-character prediction on one text.

    The vocabulary is every character of the whole text, sorted: validation then never meets an
    unknown symbol, and what this tells the model is only that the symbol exists. With ``lines``
    it also has the line end (which opens each line and is the last thing to predict) and a pad.

    Raises:
        DataError: the text is too short to be cut this way.

    Example:
        >>> task = TextTask(Text("abc", None, "abc" * 50), TaskSpec(length=8))
        >>> batch = task.batch(2, seed=0, step=0)
        >>> batch.tokens_BT.shape, batch.valid_BT, batch.characters
        (torch.Size([2, 8]), None, 16)
    """

    def __init__(self, text: Text, spec: TaskSpec) -> None:
        """Encode the text and find where sequences may start."""
        self.spec = spec
        lines = spec.shape == "lines"
        codes = code_points(f"\n{text.characters}\n" if lines else text.characters)
        self._symbols, self._data = torch.unique(codes, return_inverse=True)
        self.pad = len(self._symbols)
        self.vocabulary = len(self._symbols) + (1 if lines else 0)
        cut = len(codes) - int(len(text.characters) * spec.validation_fraction)
        starts, lengths = self._pieces() if lines else self._windows(cut)
        training = starts + lengths < cut
        self._train = starts[training], lengths[training]
        self._held = _spread(starts[starts >= cut], spec), _spread(lengths[starts >= cut], spec)
        self._check(text)

    @property
    def training_sequences(self) -> int:
        """Number of different places where a training sequence can start."""
        return len(self._train[0])

    @property
    def validation_count(self) -> int:
        """Number of sequences that are evaluated."""
        return len(self._held[0])

    def batch(self, batch_size: int, *, seed: int, step: int) -> Batch:
        """Draw the training batch of one step; it depends on ``(seed, step)`` and nothing else."""
        generator = torch.Generator().manual_seed(stream_seed(seed, "batch", step))
        rows = torch.randint(self.training_sequences, (batch_size,), generator=generator)
        return self._gather(self._train[0][rows], self._train[1][rows])

    def validation(self, batch_size: int) -> list[Batch]:
        """Cut the fixed validation sequences into batches."""
        starts, lengths = self._held
        return [
            self._gather(starts[first : first + batch_size], lengths[first : first + batch_size])
            for first in range(0, self.validation_count, batch_size)
        ]

    def _windows(self, cut: int) -> tuple[Tensor, Tensor]:
        """Every offset before the cut; after it, windows that do not overlap."""
        length, total = self.spec.length, len(self._data)
        held = torch.arange(cut, max(cut, total - length), length)
        starts = torch.cat([torch.arange(max(0, cut - length)), held])
        return starts, torch.full_like(starts, length)

    def _pieces(self) -> tuple[Tensor, Tensor]:
        """Lines that are not empty; those longer than T in pieces of equal length.

        Equal, because what is left of a line of T + 1 would be one position, which has no variance.
        """
        ends = (self._data == int((self._symbols == ord("\n")).nonzero())).nonzero().flatten()
        starts: list[int] = []
        lengths: list[int] = []
        for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            if last - first < 2:  # an empty line
                continue
            parts = -(-(last - first) // self.spec.length)
            cuts = [first + part * (last - first) // parts for part in range(parts + 1)]
            starts += cuts[:-1]
            lengths += [stop - start for start, stop in itertools.pairwise(cuts)]
        return torch.tensor(starts, dtype=torch.int64), torch.tensor(lengths, dtype=torch.int64)

    def _gather(self, starts_B: Tensor, lengths_B: Tensor) -> Batch:
        if self.spec.shape == "windows":
            index = starts_B[:, None] + torch.arange(self.spec.length + 1)
            window = self._data[index]
            return Batch(window[:, :-1], window[:, 1:], None, len(starts_B) * self.spec.length)
        position_T = torch.arange(int(lengths_B.max()))
        valid_BT = position_T < lengths_B[:, None]
        index = (starts_B[:, None] + position_T).clamp(max=len(self._data) - 2)
        tokens_BT = self._data[index].masked_fill(~valid_BT, self.pad)
        targets_BT = self._data[index + 1].masked_fill(~valid_BT, IGNORED)
        return Batch(tokens_BT, targets_BT, valid_BT, int(lengths_B.sum()))

    def _check(self, text: Text) -> None:
        if self.training_sequences and self.validation_count:
            return
        who = f"'{text.name}' has {len(text.characters)}"
        if self.spec.shape == "lines":
            rule = "text must have lines to train on and, in its last tenth, lines to validate on"
            raise DataError(sentence("compare", rule, f"{who} characters", "Give a longer text"))
        least = -(-(self.spec.length + 1) // self.spec.validation_fraction)
        rule = f"text must have at least {int(least)} characters for windows of {self.spec.length}"
        raise DataError(sentence("compare", rule, who, "Give a longer text"))


def check_batch(task: TextTask, batch_size: int, text: Text) -> None:
    """Raise :class:`DataError` where one batch asks for more than the training text has."""
    if task.spec.shape == "lines":
        room, kind = task.training_sequences, "lines"
    else:
        room, kind = (task.training_sequences + task.spec.length) // task.spec.length, "windows"
    if batch_size > room:
        rule = "a batch must not be larger than the training text"
        came = f"batch_size is {batch_size}, '{text.name}' has {room} {kind}"
        fix = f"Try batch_size={room} or less, or a longer text"
        raise DataError(sentence("compare", rule, came, fix))


def stream_seed(seed: int, stream: str, step: int = 0) -> int:
    """Derive a seed for one purpose and one step, so that no stream depends on another's past."""
    digest = hashlib.blake2b(f"{seed}/{stream}/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _spread(values: Tensor, spec: TaskSpec) -> Tensor:
    """Take ``validation_sequences`` of the values, evenly spread."""
    count = min(spec.validation_sequences, len(values))
    return values[torch.arange(count) * len(values) // max(count, 1)]
