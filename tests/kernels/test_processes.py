"""Several processes: one compiles, all load; with a real compiler and a real library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from normkit.kernels.cpu.sources import Sources
from tests.house.source import ROOT
from tests.kernels.tiny import FakeCompiler

# What each process does first: it takes the library in miniature for ours.
START = """
import os, sys
from pathlib import Path
from normkit.kernels.cpu import sources
sources.OURS = sources.Sources(folder=Path(sys.argv[1]))
from normkit.kernels import cpu
"""


def command(code: str, sources: Sources) -> list[str]:
    """A fresh Python that runs ``code`` with the library in miniature."""
    return [sys.executable, "-c", START + code, str(sources.folder)]


def run(code: str, sources: Sources, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    environment = {**os.environ, **environment, "PYTHONPATH": str(ROOT)}
    environment.pop("NORMKIT_CPU", None)
    return subprocess.run(
        command(code, sources), capture_output=True, text=True, env=environment, timeout=300
    )


FOUR = """
from normkit.kernels.cpu import library
children = []
os.environ["CXX"] = os.environ["SLOW"]
library._load = lambda found: cpu.Status(file=found.file, isa="tiny")
for _ in range(4):
    child = os.fork()
    if child == 0:
        os._exit(0 if cpu.loaded() else 1)
    children.append(child)
print([os.waitpid(child, 0)[1] for child in children])
"""


def test_four_processes_build_once(sources: Sources, cache: Path, tmp_path: Path) -> None:
    """Three wait for the first, say so, and load what it made."""
    slow = FakeCompiler(tmp_path)
    slow.write("sleep 0.3")
    done = run(FOUR, sources, SLOW=str(slow.file))
    assert done.stdout == "[0, 0, 0, 0]\n", done.stderr
    assert len(slow.targets()) == len(set(slow.targets()))
    said = done.stderr.splitlines()
    assert sum("compiling its CPU kernels once" in line for line in said) == 1
    waits = "normkit: another process is compiling its CPU kernels; waiting for it."
    assert said.count(waits) == 3
    (folder,) = cache.iterdir()
    assert not list(folder.glob("building-*"))


LOAD = """
print(cpu.isa(), cpu.status().isas[0], cpu.status().origin, flush=True)
child = os.fork()
if child == 0:
    os._exit(0 if cpu.loaded().isa() == "tiny" else 1)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.parametrize("place", ["cache", "temporary"])
def test_a_real_library_runs(sources: Sources, cache: Path, tmp_path: Path, place: str) -> None:
    """Compiled, loaded, called; in a fork too; by the next process from the cache.

    It reads no name of a folder of this machine.
    """
    if place == "temporary":
        cache.parent.write_text("a file where the cache should be", encoding="utf-8")
    first = run(LOAD, sources, TMPDIR=str(tmp_path))
    assert first.stdout == f"tiny baseline {place}\n0\n", first.stderr
    if place == "temporary":
        assert not list(tmp_path.glob("normkit-*"))
        return
    assert "compiling its CPU kernels once" in first.stderr
    (file,) = cache.glob("*/libnormkit_cpu.*")
    assert str(sources.folder).encode() not in file.read_bytes()
    second = run(LOAD, sources, PATH=str(tmp_path))  # no compiler any more
    assert (second.stdout, second.stderr) == (first.stdout, "")


KILL = """
import signal, time
child = os.fork()
if child == 0:
    os.environ["SLOW"] = "yes"
    cpu.build()
while not list(Path(os.environ["XDG_CACHE_HOME"]).glob("normkit/*/building-*/output-0")):
    time.sleep(0.01)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
print(cpu.build().compiled)
"""


def test_a_killed_build_holds_up_nobody(sources: Sources, cache: Path, tmp_path: Path) -> None:
    """The system drops the lock of a process that ends; the next one starts over and tidies up."""
    compiler = FakeCompiler(tmp_path)
    compiler.write('[ -z "$SLOW" ] || [ "$target" = /dev/null ] || exec sleep 5')
    done = run(KILL, sources, CXX=str(compiler.file))
    assert done.stdout == "True\n", done.stderr
    assert not list(cache.glob("*/building-*"))
