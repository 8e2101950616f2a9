"""A pytest plugin that writes down which normkit was imported and how the tests ended.

The runner copies this file beside the patched sources, so it imports nothing of the tests.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

REPORT = "NORMKIT_MUTANT_REPORT"

_seen: dict[str, Any] = {"origin": None, "passed": 0, "failures": []}


def pytest_sessionstart() -> None:
    """Import normkit before any test does, and remember where it came from."""
    import normkit

    _seen["origin"] = normkit.__file__
    print(f"normkit is imported from {normkit.__file__}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Remember a failed test with the type of what it raised."""
    report = yield
    if report.failed and call.excinfo is not None:
        kinds = [kind.__name__ for kind in call.excinfo.type.__mro__]
        _seen["failures"].append({"test": item.nodeid, "when": report.when, "kinds": kinds})
    elif report.passed and report.when == "call":
        _seen["passed"] += 1
    return report


def pytest_sessionfinish() -> None:
    """Write everything down, also which kernels ran."""
    kernels = sys.modules.get("normkit.kernels.cpu.library")
    if kernels is not None and kernels.status().file is not None:
        _seen["library"] = str(kernels.status().file.resolve())
    Path(os.environ[REPORT]).write_text(json.dumps(_seen), encoding="utf-8")
