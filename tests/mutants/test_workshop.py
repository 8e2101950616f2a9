"""Libraries with a bug: what is compiled again, for which dtypes, and where they are found."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from normkit.kernels.cpu.record import verified
from normkit.kernels.cpu.sources import OURS, Sources
from tests.kernels.tiny import write_sources
from tests.mutants import workshop
from tests.mutants.mutant import Mutant
from tests.mutants.workshop import SOURCES, Workshop, WorkshopError, narrow, reach, units

DISPATCH = OURS.folder / "common" / "dispatch.h"
ALL = ("float16", "bfloat16", "float32", "float64")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The library in miniature, where a package has it; one more file has nothing to include."""
    package = tmp_path / "clean" / "normkit"
    sources = write_sources(package / SOURCES).folder
    for header in (DISPATCH, DISPATCH.with_name("dtype.h")):
        shutil.copy(header, sources / "common")
    (sources / "compute" / "alone.cpp").write_text("extern const int alone = 1;\n")
    return package


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are compiled."""
    names: list[str] = []
    compile_one = workshop._compile

    def note(sources: Path, name: str, target: Path) -> Path:
        names.append(name)
        return compile_one(sources, name, target)

    monkeypatch.setattr(workshop, "_compile", note)
    return names


def copied(package: Path, name: str) -> Path:
    """A copy to plant a bug in."""
    copy = package.parents[1] / name / "normkit"
    shutil.copytree(package, copy)
    return copy


def test_a_header_touches_the_files_that_include_it() -> None:
    touched = [
        unit for unit in units(OURS.folder) if "common/moments.h" in reach(OURS.folder, unit)
    ]
    assert "compute/norm_forward.cpp" in touched
    assert "compute/norm_backward.cpp" in touched
    assert not [unit for unit in touched if unit.startswith("bindings/")]
    assert "common/norm.h" in reach(OURS.folder, "bindings/isa.cpp")


@pytest.mark.parametrize("dtypes", [("float32",), ("bfloat16", "float32"), ALL])
def test_branches_of_other_dtypes_are_cut(tmp_path: Path, dtypes: tuple[str, ...]) -> None:
    (tmp_path / "common").mkdir()
    shutil.copy(DISPATCH, tmp_path / "common")
    narrow(tmp_path, dtypes)
    text = (tmp_path / "common" / "dispatch.h").read_text(encoding="utf-8")
    types = {"float16": "Half", "bfloat16": "BFloat16", "float32": "float", "float64": "double"}
    for dtype, name in types.items():
        assert (f"Type<{name}>" in text) == (dtype in dtypes), dtype
    assert (text == DISPATCH.read_text(encoding="utf-8")) == (dtypes == ALL)
    assert text.count("{") == text.count("}")


def bug(**fields: Any) -> Mutant:
    """A bug in the header of the miniature."""
    fields = {"file": f"{SOURCES}/common/tiny.h", **fields}
    return Mutant(id="bug", family="f", old="0", new="7", tests=("test",), **fields)


def test_only_what_a_bug_touches_is_compiled_again(
    package: Path, compiled: list[str], tmp_path: Path
) -> None:
    shop = Workshop(package, tmp_path / "shop")
    first, second = (copied(package, name) for name in ("first", "second"))
    needed = shop.touched(bug())
    assert needed == {"compute/tiny.cpp"}
    assert shop.touched(bug(units=("alone",))) == set()
    shop.furnish(first, ("float32",), needed, patched=False)
    assert sorted(compiled) == units(package / SOURCES)
    compiled.clear()
    bug().plant(second)
    shop.furnish(second, ("float32",), needed, patched=True)
    assert compiled == ["compute/tiny.cpp"]
    found: list[Any] = [verified(copy / SOURCES / "lib", "package") for copy in (first, second)]
    for library, copy in zip(found, (first, second), strict=True):
        assert library.record.sources == Sources(folder=copy / SOURCES).digest()
    assert found[0].record.sha256 != found[1].record.sha256


def test_other_files_are_for_float32_alone(
    package: Path, compiled: list[str], tmp_path: Path
) -> None:
    for name in ("tiny", "alone"):
        file = package / SOURCES / "compute" / f"{name}.cpp"
        file.write_text('#include "../common/dispatch.h"\n' + file.read_text())
    shop = Workshop(package, tmp_path / "shop")
    for dtypes in (("float32",), ("float64",)):
        compiled.clear()
        copy = copied(package, dtypes[0])
        shop.furnish(copy, dtypes, {"compute/tiny.cpp"}, patched=False)
    assert compiled == ["compute/tiny.cpp"]


def test_what_does_not_compile_is_said(package: Path, tmp_path: Path) -> None:
    copy = copied(package, "copy")
    (copy / SOURCES / "common" / "tiny.h").write_text("constexpr int kTiny = nothing;\n")
    shop = Workshop(package, tmp_path / "shop")
    with pytest.raises(WorkshopError, match=r"tiny\.h:1.*error: .nothing. was not declared"):
        shop.furnish(copy, ("float32",), {"compute/tiny.cpp"}, patched=True)
