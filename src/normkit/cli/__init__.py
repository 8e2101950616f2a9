"""The command line: one file per verb. Works, with one sentence, where its packages are missing."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from normkit.errors import EXTRA, needs_extra

__all__ = ["EXTRA", "main", "missing_extra"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Args:
        arguments: what follows ``normkit``; None reads it from the process.
    """
    try:
        from normkit.cli.app import run
    except ModuleNotFoundError as error:
        text = missing_extra(error)
        if text is None:
            raise
        print(text, file=sys.stderr)
        return 2
    return run(arguments)


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """Say what to install where ``error`` is about a package of the extra; None where it is not.

    Example:
        >>> missing_extra(ModuleNotFoundError(name="rich"))
        "normkit: the command line needs the packages of normkit[cli]; rich is not installed. \
Type pip install 'normkit[cli]'."
        >>> missing_extra(ModuleNotFoundError(name="normkit.lab.gone")) is None
        True
    """
    return needs_extra("normkit", "the command line needs", error)
