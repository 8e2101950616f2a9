"""What an implementation is to the benchmark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib.util import find_spec

from normkit.benchmark.task import Bound, Task


class RefusedError(Exception):
    """An implementation cannot do this task; the text is why, as the end of a sentence."""


class Peer(ABC):
    """An implementation, ours or another's.

    Attributes:
        name: as it is typed and shown.
        needs: packages that it is imported from, as pip calls them.
        modules: the same, as Python calls them.
    """

    name: str
    needs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()

    def missing(self) -> str | None:
        """What to install, where a package is not there."""
        absent = [
            package
            for package, module in zip(self.needs, self.modules, strict=True)
            if find_spec(module) is None
        ]
        if not absent:
            return None
        return f"{self.name} is missing: type pip install {' '.join(absent)}"

    @abstractmethod
    def bind(self, task: Task) -> Bound | None:
        """Get ready for a task: build, convert, compile. None where it has nothing like the op.

        Raises:
            RefusedError: it has the op, but not in this dtype or mode.
        """

    def version(self) -> dict[str, str]:
        """Versions of its packages."""
        from importlib.metadata import version

        return {package: version(package) for package in self.needs}
