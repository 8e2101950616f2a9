"""The text that the lab trains on: a UTF-8 file, or one that every Python carries."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from normkit.errors import DataError, sentence

BUILT_IN = "pydoc_data.topics"


@dataclass(frozen=True)
class Text:
    """A text and where it came from.

    Attributes:
        name: ``pydoc_data.topics``, or the path as it was given.
        path: absolute path of the file; None for the built-in text.
        characters: what is trained on: line ends are ``\\n``, a byte order mark is left out.

    Example:
        >>> text = Text(name="abab", path=None, characters="abab" * 100 + "a")
        >>> text.distinct, round(text.bigram_entropy, 4)
        (2, 0.0)
    """

    name: str
    path: str | None
    characters: str

    @cached_property
    def sha256(self) -> str:
        """Hash of the characters in UTF-8: the same text has the same hash in any file."""
        return hashlib.sha256(self.characters.encode()).hexdigest()

    @cached_property
    def distinct(self) -> int:
        """Number of different characters."""
        return len(set(self.characters))

    @cached_property
    def unigram_entropy(self) -> float:
        """Nats per character of the best guess that sees no context."""
        return _entropy(code_points(self.characters))

    @cached_property
    def bigram_entropy(self) -> float:
        """Nats per character of the best guess that sees one character before: H(ab) - H(a)."""
        codes = code_points(self.characters)
        pairs = codes[:-1] * 0x110000 + codes[1:]
        return _entropy(pairs) - _entropy(codes[:-1])

    def summary(self) -> dict[str, str | int | float | None]:
        """What is recorded beside every comparison."""
        return {
            "name": self.name,
            "path": self.path,
            "characters": len(self.characters),
            "distinct": self.distinct,
            "sha256": self.sha256,
            "unigram_entropy_nats": self.unigram_entropy,
            "bigram_entropy_nats": self.bigram_entropy,
        }


def load_text(path: str | Path | None = None) -> Text:
    """Read a text.

    Args:
        path: a UTF-8 file; None takes Python's own help topics, in sorted order, one after the
            other (about 465,000 characters; their number differs between Python versions).

    Raises:
        DataError: there is no such file, or it is empty, or it is not a UTF-8 text.

    Example:
        >>> len(load_text().characters) > 100_000
        True
    """
    if path is None:
        return Text(name=BUILT_IN, path=None, characters=_topics())
    characters = _decode(path, _read(path)).replace("\r\n", "\n").replace("\r", "\n")
    if not characters:
        rule = "text must hold characters to learn from"
        raise DataError(sentence("compare", rule, f"'{path}' is empty"))
    return Text(name=str(path), path=str(Path(path).resolve()), characters=characters)


def code_points(characters: str) -> Tensor:
    """Unicode numbers of the characters, int64, shape (len(characters),)."""
    data = bytearray(characters.encode("utf-32-le"))
    if not data:  # torch.frombuffer refuses an empty buffer
        return torch.zeros(0, dtype=torch.int64)
    return torch.frombuffer(data, dtype=torch.int32).to(torch.int64)


def _topics() -> str:
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics))


def _read(path: str | Path) -> bytes:
    rule = "text must name a UTF-8 file"
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise DataError(sentence("compare", rule, f"there is no file '{path}'")) from None
    except IsADirectoryError:
        raise DataError(sentence("compare", rule, f"'{path}' is a folder")) from None
    except OSError as error:
        came = f"'{path}' cannot be read ({error.strerror})"
        raise DataError(sentence("compare", rule, came)) from error


def _decode(path: str | Path, data: bytes) -> str:
    rule = "text must be UTF-8 without NUL characters"
    try:
        characters = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        came = f"byte {error.start} of '{path}' is not UTF-8"
        raise DataError(sentence("compare", rule, came, "Give a plain text file")) from None
    if "\0" in characters:
        came = f"'{path}' has a NUL at character {characters.index(chr(0))}"
        raise DataError(sentence("compare", rule, came, "Give a plain text file"))
    return characters


def _entropy(symbols: Tensor) -> float:
    _, counts = torch.unique(symbols, return_counts=True)
    share = counts.double() / counts.sum()
    return float(-(share * share.log()).sum())
