"""Which planted bugs a run takes: a third drawn by the commit, or those named."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.mutant import Mutant


def third(mutants: Sequence[Mutant], seed: str) -> list[Mutant]:
    """Draw a third, rounded up: those whose sha256 of seed and id is smallest, in list order.

    The same seed draws the same third on every machine; over many commits every bug has its turn.
    """

    def rank(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed}:{mutant.id}".encode()).hexdigest()

    chosen = sorted(mutants, key=rank)[: -(-len(mutants) // 3)]
    return [mutant for mutant in mutants if mutant in chosen]


def commit(root: Path) -> str:
    """The hash of the commit that is checked out.

    Raises:
        ValueError: ``root`` is not in a git repository with a commit.
    """
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(
            "a third is drawn by the commit, and git knows none here; type --seed TEXT"
        )
    return done.stdout.strip()


def named(mutants: Sequence[Mutant], ids: Sequence[str]) -> list[Mutant]:
    """Take the bugs with these ids.

    Raises:
        ValueError: an id is not in the list.
    """
    known = {mutant.id: mutant for mutant in mutants}
    unknown = [name for name in ids if name not in known]
    if unknown:
        raise ValueError(f"no planted bug is called {', '.join(unknown)}; --list shows them all")
    return [known[name] for name in ids]
