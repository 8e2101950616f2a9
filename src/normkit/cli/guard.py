"""What a person sees when a verb fails: one sentence, or a request to report a bug."""

from __future__ import annotations

import errno
import functools
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import typer
from typer.exceptions import TyperException

from normkit.cli import missing_extra
from normkit.errors import NormkitError

P = ParamSpec("P")
R = TypeVar("R")

BAD_INPUT, BUG, INTERRUPTED = 2, 1, 130
_OWN_FILES = (Path(__file__).parents[1], Path(sys.prefix), Path(sys.base_prefix))
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def guarded(verb: Callable[P, R]) -> Callable[P, R]:
    """Decorate a verb: whatever it raises is told on stderr and becomes an exit code.

    2 is for input that a person can put right, 130 for Ctrl-C, 1 for a bug of ours.
    """

    @functools.wraps(verb)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return verb(*args, **kwargs)
        except (typer.Exit, typer.Abort, BrokenPipeError):
            raise
        except (Exception, KeyboardInterrupt) as error:
            raise typer.Exit(tell(error)) from error

    return wrapper


def tell(error: BaseException) -> int:
    """Print what a person needs to know about ``error`` and return the exit code."""
    if isinstance(error, KeyboardInterrupt):
        print("normkit: stopped by Ctrl-C.", file=sys.stderr)
        return INTERRUPTED
    text = user_sentence(error)
    if text is not None:
        print(text, file=sys.stderr)
        return BAD_INPUT
    print("".join(traceback.format_exception(error, limit=-6)), end="", file=sys.stderr)
    print(
        "normkit: this is a bug in normkit, not in what was typed. Please report it with the "
        "lines above and what `normkit info` prints.",
        file=sys.stderr,
    )
    return BUG


def user_sentence(error: BaseException) -> str | None:
    """Turn an error that a person can put right into a sentence; None for all others."""
    if isinstance(error, NormkitError):
        return str(error)
    if isinstance(error, TyperException):
        return _usage_sentence(error)
    if isinstance(error, ModuleNotFoundError):
        return missing_extra(error)
    if isinstance(error, OSError):
        return _file_sentence(error)
    return None


def _usage_sentence(error: TyperException) -> str:
    """Say what is wrong with the words that were typed, and where to read what is right."""
    context = getattr(error, "ctx", None)
    words = context.command_path if context is not None else "normkit"
    message = error.format_message()
    end = "" if message.endswith((".", "?", "!")) else "."
    return f"{words}: {message}{end} Try {words} --help."


def _file_sentence(error: OSError) -> str | None:
    """Speak of a file or folder that the person named; a missing file of ours is a bug."""
    if error.errno in _DISK:
        return f"normkit: cannot write; {os.strerror(error.errno)}."
    if not isinstance(error.filename, str | os.PathLike):
        return None
    path = Path(error.filename)
    if any(path.absolute().is_relative_to(folder) for folder in _OWN_FILES):
        return None
    return f"normkit: cannot use {str(path)!r}; {error.strerror}."
