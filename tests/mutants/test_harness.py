"""The harness itself: every patch fits, and no verdict is given that was not earned."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.__main__ import ROOT, main, summary
from tests.mutants.catalogue import MUTANTS
from tests.mutants.draw import commit, named, third
from tests.mutants.mutant import Mutant, PatchError, misfits
from tests.mutants.runner import HarnessError, Outcome, Project

PACKAGE = ROOT / "src" / "normkit"
SOURCE = "import math\n\n\ndef half(x):\n    return x / 2\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project of one function and one test that looks at it, and one that does not."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # loading them takes seconds
    package = tmp_path / "src" / "normkit"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(SOURCE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_half.py").write_text(
        "import normkit\n\ndef test_half():\n    assert normkit.half(4) == 2\n"
    )
    (tmp_path / "test_blind.py").write_text("def test_blind():\n    assert True\n")
    return Project(tmp_path, package)


def bug(new: str, *, old: str = "x / 2", test: str = "test_half.py", name: str = "bug") -> Mutant:
    return Mutant(id=name, family="f", file="__init__.py", old=old, new=new, tests=(test,))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_patch_fits_exactly_one_place_and_compiles(mutant: Mutant) -> None:
    assert mutant.patched(PACKAGE) != (PACKAGE / mutant.file).read_text(encoding="utf-8")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_the_tests_that_must_kill_exist(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.tests:
        file, *names = test.split("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert all(f"def {name.split('[')[0]}(" in text for name in names), test


def test_ids_are_unique() -> None:
    assert misfits(MUTANTS, PACKAGE) == []


def test_a_bug_that_a_test_sees_is_killed(project: Project) -> None:
    outcome = project.run(bug("x / 3"))
    assert (outcome.verdict, outcome.why) == ("killed", "test_half.py::test_half")
    assert (project.package / "__init__.py").read_text() == SOURCE


def test_edits_during_a_run_change_nothing(project: Project) -> None:
    with Project.frozen(project.root) as frozen:
        (project.package / "__init__.py").write_text("raise ValueError('half edited')\n")
        assert frozen.run(bug("x / 3")).verdict == "killed"
        assert frozen.run(bug("x / 2")).verdict == "survived"
    assert not frozen.package.exists()


def test_a_patch_that_changes_nothing_survives(project: Project) -> None:
    assert project.run(bug("x / 2")).verdict == "survived"


def test_a_bug_that_no_test_looks_at_survives(project: Project) -> None:
    assert project.run(bug("x / 3", test="test_blind.py")).verdict == "survived"


@pytest.mark.parametrize(
    ("old", "new", "test"),
    [
        ("import math", "import no_such_module", "test_half.py"),  # the import fails
        ("x / 2", "y / 2", "test_half.py"),  # every call dies of a NameError
        ("x / 2", "x / 3", "no_such_test.py"),
        ("x / 2", "x / 3", "test_half.py::test_other"),
        ("def half", "def third", "test_half.py"),
    ],
)
def test_what_proves_nothing_is_broken(project: Project, old: str, new: str, test: str) -> None:
    assert project.run(bug(new, old=old, test=test)).verdict == "broken"


def test_a_test_file_that_does_not_import_is_broken_and_kills_nothing(project: Project) -> None:
    (project.root / "test_half.py").write_text("raise ValueError('at collection')\n")
    assert project.run(bug("x / 3")).verdict == "broken"


def test_skipped_tests_kill_nothing_and_spare_nothing(project: Project) -> None:
    (project.root / "test_half.py").write_text(
        "import pytest\n\n@pytest.mark.skip\ndef test_half():\n    assert False\n"
    )
    assert project.run(bug("x / 3")).verdict == "broken"


def test_importing_another_normkit_than_the_copy_stops_everything(project: Project) -> None:
    real = project.package.parent
    (project.root / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(real)!r})\n")
    with pytest.raises(HarnessError, match=r"imported normkit from .*src/normkit/__init__\.py"):
        project.run(bug("x / 3"))


def test_the_baseline_runs_all_tests_without_a_bug(project: Project) -> None:
    mutants = [bug("x / 3"), bug("x / 3", test="test_blind.py", name="other")]
    (outcome,) = project.baselines(mutants)
    assert (outcome.verdict, outcome.why) == ("survived", "2 tests passed")
    (project.root / "test_blind.py").write_text("def test_blind():\n    assert False\n")
    assert [o.verdict for o in project.baselines(mutants)] == ["killed"]


def test_outcomes_come_in_the_order_of_the_list(project: Project) -> None:
    mutants = [bug(f"x / {n}", name=str(n)) for n in (3, 2, 4)]
    outcomes = list(project.run_all(mutants, jobs=2))
    assert [(o.id, o.verdict) for o in outcomes] == [
        ("3", "killed"),
        ("2", "survived"),
        ("4", "killed"),
    ]


@pytest.mark.parametrize(
    ("mutant", "text"),
    [
        (bug("x", old="x * 7"), "bug: the old text stands 0 times in __init__.py, not once"),
        (bug("y", old="x"), "bug: the old text stands 2 times in __init__.py, not once"),
        (bug("x /"), "bug: the patched __init__.py is not Python"),
    ],
)
def test_a_patch_that_does_not_fit_is_refused(project: Project, mutant: Mutant, text: str) -> None:
    with pytest.raises(PatchError, match=f"^{text}"):
        project.run(mutant)
    (problem,) = misfits([mutant], project.package)
    assert problem.startswith(text)


def test_an_id_that_stands_twice_and_a_missing_file_are_problems(project: Project) -> None:
    lost = Mutant(id="bug", family="f", file="gone.py", old="a", new="b", tests=("test_half.py",))
    assert misfits([bug("x / 3"), lost], project.package) == [
        "bug: the id stands twice in the list",
        "bug: there is no gone.py",
    ]


def test_a_third_is_drawn_by_the_seed_alone() -> None:
    mutants = [bug("x", name=str(n)) for n in range(10)]
    drawn = third(mutants, "a")
    assert len(drawn) == 4
    assert drawn == third(mutants, "a") == [m for m in mutants if m in drawn]
    turns = {m.id for seed in range(40) for m in third(mutants, str(seed))}
    assert turns == {m.id for m in mutants}


def test_outside_a_repository_a_third_needs_a_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(ValueError, match="type --seed TEXT"):
        commit(tmp_path)


def test_named_bugs_must_exist() -> None:
    mutants = [bug("x", name="one"), bug("x", name="two")]
    assert named(mutants, ["two"]) == [mutants[1]]
    with pytest.raises(ValueError, match="no planted bug is called three, four; --list shows"):
        named(mutants, ["three", "one", "four"])


def test_summary_names_survivors_and_broken_ones() -> None:
    verdicts = {"a": "killed", "b": "survived", "c": "broken", "d": "survived"}
    outcomes = [Outcome(id=i, verdict=v, seconds=1.0, why="") for i, v in verdicts.items()]
    assert summary(outcomes) == "survived: b, d\nbroken: c\nkilled 1/4"
    assert summary(outcomes[:1]) == "killed 1/1"


def test_the_command_lists_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert [line.split()[0] for line in lines] == [mutant.id for mutant in MUTANTS]
    assert main(["--only", "no-such-bug"]) == 2
    assert capsys.readouterr().err == (
        "mutants: no planted bug is called no-such-bug; --list shows them all.\n"
    )
    assert main(["--seed", "x"]) == 2
    assert main(["--jobs", "0"]) == 2
