"""Put the compiled CPU kernels into a wheel, where NORMKIT_WHEEL=1 asks for it.

Only `make wheel` asks. Any other install copies the C++ sources and compiles nothing: the first use
does, with the headers of the torch that is there by then.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INSIDE = "normkit/kernels/cpu/lib"


class LibraryHook(BuildHookInterface[Any]):
    """What hatchling calls before it writes a wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, or take from the cache, and name the platform in the wheel's tag."""
        if version == "editable" or os.environ.get("NORMKIT_WHEEL") != "1":
            return
        sys.path.insert(0, str(Path(self.root, "src")))
        from normkit.kernels.cpu import build

        library = build().file
        for file in (library, library.with_name("library.json")):
            build_data["force_include"][str(file)] = f"{INSIDE}/{file.name}"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
