"""ScaleNorm, QK-norm, DynamicTanh, DynamicErf."""

from __future__ import annotations

from tests.norms.cases.case import Case

CASES: tuple[Case, ...] = ()
