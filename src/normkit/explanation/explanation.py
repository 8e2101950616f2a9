"""What every explanation can do: be read as text, as data, as a picture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from normkit.explanation.sections import Section, write
from normkit.explanation.svg import to_svg


@dataclass(frozen=True, kw_only=True)
class Explanation(ABC):
    """What is known about one name of the registry.

    ``print`` shows it as text of 80 columns; :meth:`data` gives it to programs; :meth:`svg` draws.
    """

    name: str
    title: str
    source: str

    @property
    @abstractmethod
    def heading(self) -> str:
        """What stands over the text."""

    @abstractmethod
    def sections(self) -> Iterator[Section]:
        """All there is to say, in the order in which it is read."""

    @abstractmethod
    def summary(self) -> dict[str, str]:
        """One short text for each question, for a table beside others of the same kind."""

    @abstractmethod
    def data(self) -> dict[str, Any]:
        """The same as plain data: what ``--json`` prints."""

    @abstractmethod
    def drawings(self) -> list[dict[str, Any]]:
        """Pictures as plain records, from top to bottom; each says its ``kind``."""

    def svg(self) -> str:
        """Draw the picture as an SVG document.

        Raises:
            MissingExtraError: the packages of ``normkit[cli]`` are not installed.
        """
        return to_svg(self.title, self.drawings())

    def __str__(self) -> str:
        """The whole explanation as plain text."""
        return write(self.heading, self.sections())
