"""One planted bug: a patch that fits exactly one place, and the tests that must catch it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


class PatchError(Exception):
    """A patch does not fit the sources as they are."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A bug as a source patch.

    Attributes:
        id: short name, unique in the list.
        family: which kind of mistake this is; the same mistake in several places has one family.
        file: relative to the package, such as ``reference/layer_norm.py``.
        old: text that stands exactly once in the file.
        new: what the bug makes of it.
        tests: files or node ids, relative to the root of the project; together they must fail.
        dtypes: of a bug in C++: all that its tests use; the fewer, the sooner it is compiled.
        units: of a bug in a C++ header: those files of ``compute/`` that its tests run, such as
            ``norm_forward``; none means every file that includes it.
        kernels: whether the tests run with the compiled kernels, as those of a bug in C++ always
            do; without, a bug in torch operations cannot hide behind them.
    """

    id: str
    family: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    dtypes: tuple[str, ...] = ("float32",)
    units: tuple[str, ...] = ()
    kernels: bool = False

    @property
    def compiled(self) -> bool:
        """Whether the bug is in a C++ source."""
        return self.file.endswith((".cpp", ".h"))

    def patched(self, package: Path) -> str:
        """The text of the file with the bug in it.

        Raises:
            PatchError: the file is missing, or ``old`` stands there never or more than once, or
                the result is not Python (whether it is C++ shows when it is compiled).
        """
        path = package / self.file
        if not path.is_file():
            raise PatchError(f"{self.id}: there is no {self.file}")
        text = path.read_text(encoding="utf-8")
        found = text.count(self.old)
        if found != 1:
            raise PatchError(
                f"{self.id}: the old text stands {found} times in {self.file}, not once"
            )
        changed = text.replace(self.old, self.new)
        try:
            if not self.compiled:
                compile(changed, self.file, "exec")
        except SyntaxError as error:
            raise PatchError(
                f"{self.id}: the patched {self.file} is not Python: {error}"
            ) from error
        return changed

    def plant(self, package: Path) -> None:
        """Write the bug into a copy of the package."""
        (package / self.file).write_text(self.patched(package), encoding="utf-8")


def misfits(mutants: Iterable[Mutant], package: Path) -> list[str]:
    """Say which patches do not fit, and which ids stand twice."""
    problems, seen = [], set()
    for mutant in mutants:
        if mutant.id in seen:
            problems.append(f"{mutant.id}: the id stands twice in the list")
        seen.add(mutant.id)
        try:
            mutant.patched(package)
        except PatchError as error:
            problems.append(str(error))
    return problems
