"""Plant a bug in a copy of the sources, run the tests that must catch it, judge what happened."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.mutants.mutant import Mutant
from tests.mutants.workshop import Workshop, WorkshopError

Verdict = Literal["killed", "survived", "broken"]

TIMEOUT_S = 300
_OUTPUT = "output.txt"
# A process that has imported what costs seconds is forked for each bug; normkit is not among it.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["pytest", "numpy", "torch._dynamo", "torch.export"])
_WITNESS = "normkit_mutant_witness"
# A test that dies of one of these met nonsense, not a wrong number.
_NONSENSE = {"NameError", "ImportError", "AttributeError", "SyntaxError"}


class HarnessError(Exception):
    """The harness itself cannot be trusted, whatever the tests said."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one planted bug.

    Attributes:
        verdict: ``killed`` by a failing test; ``survived`` where all passed; ``broken`` where the
            tests could not run, or died of nonsense such as a NameError.
        seconds: how long the tests ran, compiling included.
        why: the test that killed it, or what broke.
    """

    id: str
    verdict: Verdict
    seconds: float
    why: str


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is run for one bug, or for several that are tested alike.

    Attributes:
        tests: all of theirs.
        kernels: whether the compiled kernels may run.
        compiled: those in C++: all or none; their library is made first.
    """

    tests: Sequence[str]
    kernels: bool
    compiled: Sequence[Mutant]

    @classmethod
    def of(cls, mutants: Sequence[Mutant]) -> Trial:
        """The trial of mutants that are alike."""
        return cls(
            tests=sorted({test for mutant in mutants for test in mutant.tests}),
            kernels=mutants[0].kernels or mutants[0].compiled,
            compiled=[mutant for mutant in mutants if mutant.compiled],
        )


@dataclass(frozen=True)
class Project:
    """A project with tests and a package.

    Attributes:
        root: where the tests are run.
        package: the sources that bugs are planted in copies of.
        workshop: makes the libraries of bugs in C++; None where there are no such bugs.
    """

    root: Path
    package: Path
    workshop: Workshop | None = None

    @classmethod
    @contextmanager
    def frozen(cls, root: Path) -> Iterator[Project]:
        """Take the sources as they are now: edits during the run change nothing."""
        with tempfile.TemporaryDirectory(prefix="normkit-mutants-") as folder:
            package = _copied(root / "src" / "normkit", Path(folder))
            yield cls(root, package, Workshop(package, Path(folder) / "workshop"))

    def run(self, mutant: Mutant) -> Outcome:
        """Plant one bug in a copy and run its tests there.

        Raises:
            PatchError: the patch does not fit.
            HarnessError: the tests imported another normkit than the copy.
        """
        with tempfile.TemporaryDirectory(prefix="normkit-mutant-") as folder:
            mutant.plant(_copied(self.package, Path(folder)))
            return self._outcome(mutant.id, Path(folder), Trial.of([mutant]), patched=True)

    def baselines(self, mutants: Iterable[Mutant]) -> Iterator[Outcome]:
        """Run all their tests on copies without any bug, which must survive them.

        Bugs in C++ are tested with libraries that are made in another way than those of users:
        their tests must pass with such a library too.
        """
        groups: dict[tuple[object, ...], list[Mutant]] = {}
        for mutant in mutants:
            dtypes = tuple(sorted(mutant.dtypes)) if mutant.compiled else ()
            groups.setdefault((mutant.kernels, dtypes), []).append(mutant)
        for group in groups.values():
            with tempfile.TemporaryDirectory(prefix="normkit-mutant-") as folder:
                _copied(self.package, Path(folder))
                yield self._outcome("no bug", Path(folder), Trial.of(group), patched=False)

    def run_all(self, mutants: Sequence[Mutant], jobs: int) -> Iterator[Outcome]:
        """Run several at a time; outcomes come in the order of the list."""
        with ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(self.run, mutants)

    def _outcome(self, name: str, folder: Path, trial: Trial, *, patched: bool) -> Outcome:
        """Compile the kernels where the bug is in them, then run the tests."""
        start = time.monotonic()
        if trial.compiled and self.workshop is not None:
            needed = set().union(*(self.workshop.touched(mutant) for mutant in trial.compiled))
            package, dtypes = folder / self.package.name, trial.compiled[0].dtypes
            try:
                self.workshop.furnish(package, dtypes, needed, patched=patched)
            except WorkshopError as error:
                seconds = time.monotonic() - start
                return Outcome(id=name, verdict="broken", seconds=seconds, why=str(error))
        code, output = self._pytest(trial.tests, folder, trial.kernels)
        seconds = time.monotonic() - start
        report = _report(folder)
        origin = report.get("origin")
        if origin and not Path(origin).is_relative_to(folder.resolve()):
            raise HarnessError(f"{name}: the tests imported normkit from {origin}, not the copy")
        library = report.get("library")
        if trial.compiled and library and not Path(library).is_relative_to(folder.resolve()):
            raise HarnessError(f"{name}: the tests used the kernels of {library}, not of the copy")
        verdict, why = _judge(code, report, output)
        return Outcome(id=name, verdict=verdict, seconds=seconds, why=why)

    def _pytest(self, tests: Sequence[str], folder: Path, kernels: bool) -> tuple[int | None, str]:
        arguments = (self.root, tests, folder, kernels)
        process = _FORKS.Process(target=run_tests, args=arguments, daemon=True)
        process.start()
        process.join(TIMEOUT_S)
        if process.is_alive():
            process.kill()
            process.join()
            return None, f"the tests ran over {TIMEOUT_S} s"
        output = folder / _OUTPUT
        return process.exitcode, output.read_text(encoding="utf-8") if output.exists() else ""


def run_tests(root: Path, tests: Sequence[str], folder: Path, kernels: bool) -> None:
    """Be the process that tests one copy: end with pytest's exit code."""
    with (folder / _OUTPUT).open("w", encoding="utf-8") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.chdir(root)
    os.environ["PYTHONPATH"] = str(folder)
    os.environ["NORMKIT_CPU"] = "on" if kernels else "off"
    os.environ["NORMKIT_MUTANT_REPORT"] = str(folder / "report.json")
    sys.path.insert(0, str(folder))
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", _WITNESS, "--tb=line"]
    sys.exit(pytest.main([*options, *tests]))


def _copied(package: Path, folder: Path) -> Path:
    """Copy the package, and the witness beside it."""
    here = folder / package.name
    shutil.copytree(package, here, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(__file__).with_name("witness.py"), folder / f"{_WITNESS}.py")
    return here


def _report(folder: Path) -> dict[str, Any]:
    path = folder / "report.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _judge(code: int | None, report: dict[str, Any], output: str) -> tuple[Verdict, str]:
    failures = report.get("failures", [])
    if code == 0 and report.get("passed"):
        return "survived", f"{report['passed']} tests passed"
    if code == 1 and failures:
        first = failures[0]
        if _NONSENSE & set(first["kinds"]) and "AssertionError" not in first["kinds"]:
            return "broken", f"{first['kinds'][0]} in {first['test']}"
        return "killed", first["test"]
    return "broken", _last_line(output)


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "the tests said nothing"
