"""Texts: any UTF-8 file, the one that Python carries, their entropies, and what is refused."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from pathlib import Path
from pydoc_data.topics import topics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normkit.errors import DataError
from normkit.lab.text import Text, code_points, load_text


def test_built_in_text() -> None:
    """All topics, in sorted order, on any Python; context helps to guess the next character."""
    text = load_text()
    assert (text.name, text.path) == ("pydoc_data.topics", None)
    assert text.characters == "\n".join(topics[name] for name in sorted(topics))
    assert text.summary() == {
        "name": "pydoc_data.topics",
        "path": None,
        "characters": len(text.characters),
        "distinct": len(set(text.characters)),
        "sha256": hashlib.sha256(text.characters.encode()).hexdigest(),
        "unigram_entropy_nats": text.unigram_entropy,
        "bigram_entropy_nats": text.bigram_entropy,
    }
    assert 2 < text.bigram_entropy < text.unigram_entropy - 0.5 < 4


def test_file(tmp_path: Path) -> None:
    """Line ends and a byte order mark do not belong to the text; the hash is of the characters."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthr\xc3\xa9\xf0\x9f\x98\x80")
    text = load_text(path)
    assert text.characters == "one\ntwo\nthr\u00e9\U0001f600"
    assert text.path == str(path)
    assert text.sha256 == Text("b", None, text.characters).sha256


def entropy(symbols: list[object]) -> float:
    """The definition, written out."""
    shares = [symbols.count(one) / len(symbols) for one in set(symbols)]
    return -math.fsum(share * math.log(share) for share in shares)


@given(st.text(min_size=2, max_size=40))
def test_entropies_are_their_definition(characters: str) -> None:
    """H(a), and H(next | a) = H(a next) - H(a)."""
    text = Text("t", None, characters)
    pairs: list[object] = list(itertools.pairwise(characters))
    assert text.unigram_entropy == pytest.approx(entropy(list(characters)), abs=1e-12)
    conditional = entropy(pairs) - entropy(list(characters[:-1]))
    assert text.bigram_entropy == pytest.approx(conditional, abs=1e-12)


def test_entropies_of_known_texts() -> None:
    """A fair coin has ln 2; a strict alternation has ln 2 without context and 0 with it."""
    draw = random.Random(1)
    coin = Text("coin", None, "".join(draw.choices("ab", k=20_000)))
    assert coin.unigram_entropy == pytest.approx(math.log(2), abs=1e-3)
    assert coin.bigram_entropy == pytest.approx(math.log(2), abs=1e-3)
    turns = Text("turns", None, "ab" * 5000 + "a")
    assert turns.unigram_entropy == pytest.approx(math.log(2), abs=1e-6)
    assert turns.bigram_entropy == pytest.approx(0.0, abs=1e-12)


@given(st.text(max_size=20))
def test_code_points(characters: str) -> None:
    """One number for each character, also beyond the first plane."""
    assert code_points(characters).tolist() == [ord(one) for one in characters]


REFUSED = {
    "missing": (None, "text must name a UTF-8 file; there is no file '{path}'."),
    "empty": (b"", "text must hold characters to learn from; '{path}' is empty."),
    "mark": (b"\xef\xbb\xbf", "text must hold characters to learn from; '{path}' is empty."),
    "binary": (
        b"PK\x03\x04\xff\xfe",
        "text must be UTF-8 without NUL characters; byte 4 of '{path}' is not UTF-8. "
        "Give a plain text file.",
    ),
    "nul": (
        b"ab\x00c",
        "text must be UTF-8 without NUL characters; '{path}' has a NUL at character 2. "
        "Give a plain text file.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, tmp_path: Path) -> None:
    """One sentence: what a text must be, what came."""
    data, words = REFUSED[case]
    path = tmp_path / "t"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(DataError) as caught:
        load_text(path)
    assert str(caught.value) == "compare: " + words.format(path=path)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    """A folder is no text."""
    with pytest.raises(DataError) as caught:
        load_text(tmp_path)
    assert str(caught.value) == f"compare: text must name a UTF-8 file; '{tmp_path}' is a folder."


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    """What the system says is passed on: here, a path that goes through a file."""
    (tmp_path / "file").write_text("x")
    path = tmp_path / "file" / "t"
    with pytest.raises(DataError) as caught:
        load_text(path)
    rule = "compare: text must name a UTF-8 file"
    assert str(caught.value) == f"{rule}; '{path}' cannot be read (Not a directory)."
