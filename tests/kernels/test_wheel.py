"""The wheel: built, installed where there is nothing but torch and no compiler, used."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from normkit.kernels.cpu.record import RECORD
from normkit.kernels.cpu.sources import OURS
from tests.house.source import ROOT
from tests.house.test_base_install import base_python, run

__all__ = ["base_python"]  # a fixture: a fresh environment with torch alone
LIB = "normkit/kernels/cpu/lib/"
USE = """
import os
os.environ["PATH"] = ""
import torch, normkit
from normkit import functional
from normkit.kernels import cpu
x = torch.tensor([[3.0, 4.0]], requires_grad=True)
y = functional.rms_norm(x, 2, eps=0.0, impl="cpu")
y.sum().backward()
print(cpu.status().origin, cpu.status().file.parts[-5:-1], normkit.__file__.split(os.sep)[-3])
print([round(v, 4) for v in y.tolist()[0] + x.grad.tolist()[0]])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``make wheel`` writes."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [str(ROOT / "tools" / "build_wheel.sh"), sys.executable, str(folder)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (file,) = folder.iterdir()
    return file


def test_works_without_a_compiler(wheel: Path, base_python: Path, tmp_path: Path) -> None:
    """Installed by pip into a fresh environment; forward and backward run on the kernels."""
    site = next(base_python.parents[1].glob("lib/python*/site-packages"))
    (site / "normkit.pth").unlink()  # the checkout
    pip = [sys.executable, "-m", "pip", "--python", str(base_python)]
    command = [*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    used = run(base_python, "-W", "ignore:Failed to initialize NumPy", "-c", USE)
    where = ("normkit", "kernels", "cpu", "lib")
    assert (used.stdout, used.stderr) == (
        f"package {where} site-packages\n[0.8485, 1.1314, 0.0453, -0.0339]\n",
        "",
    )


def test_contents(wheel: Path) -> None:
    """The library with its record, once, and the sources that it was made of."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        text = archive.read(f"{LIB}{RECORD}").decode()
    assert len([name for name in names if name.startswith(LIB) and name != LIB]) == 2
    assert OURS.digest() in text
    for file in (*OURS.compute(), *OURS.bindings(), *OURS.folder.glob("common/*.h")):
        assert f"normkit/kernels/cpu/{file.relative_to(OURS.folder).as_posix()}" in names
    assert not [name for name in names if "libtorch" in name]


def glibc_needs(library: Path) -> set[tuple[int, ...]]:
    """The versions of glibc whose symbols a library asks for."""
    with library.open("rb") as file:
        sections = [s for s in ELFFile(file).iter_sections() if isinstance(s, GNUVerNeedSection)]
        names = [aux.name for s in sections for _, auxes in s.iter_versions() for aux in auxes]
    versions = [re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", name) for name in names]
    return {tuple(map(int, found.groups())) for found in versions if found}


def test_its_tag_is_honest(wheel: Path, tmp_path: Path) -> None:
    """On Linux the platform has every symbol of glibc that the library asks for."""
    (found,) = re.findall(r"-py3-none-manylinux_(\d+)_(\d+)_\w+\.whl$", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.startswith(f"{LIB}libnormkit_cpu"))
        library = Path(archive.extract(name, tmp_path))
    needs = glibc_needs(library)
    assert needs
    assert max(needs) <= tuple(map(int, found))


def test_an_install_from_the_sources_compiles_nothing(tmp_path: Path) -> None:
    """The same hook, not asked for a library: a pure wheel with the C++ files."""
    environment = {k: v for k, v in os.environ.items() if k != "NORMKIT_WHEEL"}
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    subprocess.run(
        [*command, str(tmp_path)], cwd=ROOT, env=environment, check=True, capture_output=True
    )
    (file,) = tmp_path.iterdir()
    assert file.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
    assert not [name for name in names if name.startswith(LIB)]
    for source in (*OURS.compute(), *OURS.bindings(), *OURS.folder.glob("common/*.h")):
        assert f"normkit/kernels/cpu/{source.relative_to(OURS.folder).as_posix()}" in names
