"""The C++ compiler of this machine."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass

from normkit.kernels.cpu.failure import CannotBuild

NAMES = ("c++", "g++", "clang++")
_INSTALL = (
    "install one (Xcode: xcode-select --install), then type normkit build"
    if sys.platform == "darwin"
    else "install one (Debian: apt-get install g++), then type normkit build"
)


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """The words that start a compiler, and all that it says of itself."""

    words: tuple[str, ...]
    identity: str

    @property
    def version(self) -> str:
        """Its name and version in one line."""
        return self.identity.partition("\n")[0]


def find_compiler() -> Compiler:
    """The compiler that CXX names, else the first on PATH.

    Raises:
        CannotBuild: there is none, or it does not run.
    """
    if sys.platform == "win32":
        raise CannotBuild("the CPU kernels are not supported on Windows: use torch operations")
    named = shlex.split(os.environ.get("CXX", ""))
    words = named or [name for name in NAMES if shutil.which(name)][:1]
    if not words:
        missing = f"CXX is not set, and none of {', '.join(NAMES)} is on PATH"
        raise CannotBuild(
            f"there is no C++ compiler to compile the CPU kernels ({missing}): {_INSTALL}"
        )
    return Compiler(words=tuple(words), identity=_ask(words))


def _ask(words: list[str]) -> str:
    done = None
    try:
        done = subprocess.run([*words, "--version"], capture_output=True, text=True, check=False)
        came = f"it ends with exit code {done.returncode}"
    except OSError as error:
        came = error.strerror or str(error)
    if done is None or done.returncode:
        whose = "of CXX" if os.environ.get("CXX") else "on PATH"
        raise CannotBuild(
            f"the C++ compiler {whose}, {shlex.join(words)}, does not run ({came}): {_INSTALL}"
        )
    return done.stdout.strip()
