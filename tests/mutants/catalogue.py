"""The list of planted bugs, all of it."""

from __future__ import annotations

from tests.mutants import (
    added_norms,
    batch_norms,
    channel_norms,
    computation,
    explanation,
    gated_norms,
    layers,
    norm_linear,
    placements,
    power_norms,
    scaled_norms,
    token_norms,
)
from tests.mutants.mutant import Mutant

# Those in kernels.py and gate_kernels.py join when each has been seen killed on an idle machine.
MUTANTS: tuple[Mutant, ...] = (
    *computation.MUTANTS,
    *token_norms.MUTANTS,
    *batch_norms.MUTANTS,
    *channel_norms.MUTANTS,
    *gated_norms.MUTANTS,
    *added_norms.MUTANTS,
    *layers.MUTANTS,
    *norm_linear.MUTANTS,
    *placements.MUTANTS,
    *power_norms.MUTANTS,
    *scaled_norms.MUTANTS,
    *explanation.MUTANTS,
)
