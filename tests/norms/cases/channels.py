"""GroupNorm, InstanceNorm, LayerNorm over channels."""

from __future__ import annotations

from tests.norms.cases.case import Case

CASES: tuple[Case, ...] = ()
