"""The list of planted bugs, all of it."""

from __future__ import annotations

from tests.mutants import batch_norms, computation, layers, token_norms
from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *computation.MUTANTS,
    *token_norms.MUTANTS,
    *batch_norms.MUTANTS,
    *layers.MUTANTS,
)
