"""What is raised in here when no library can be made; the reason is a clause for a sentence."""

from __future__ import annotations


class CannotBuild(Exception):  # noqa: N818 - it is a reason, not a bug: every caller catches it
    """Why there is no library: a clause without a full stop that ends in what to type."""

    def __init__(self, reason: str, *, lines: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.lines = lines  # the compiler's last words, where it had any
