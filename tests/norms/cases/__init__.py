"""The layers that the shared contract is run on, a family a file."""

from __future__ import annotations

from tests.norms.cases import batch, channels, gated, power, scaled, token
from tests.norms.cases.case import Case, scramble

CASES: tuple[Case, ...] = (
    *token.CASES,
    *batch.CASES,
    *channels.CASES,
    *scaled.CASES,
    *gated.CASES,
    *power.CASES,
)


def stateless(case: Case) -> bool:
    """Whether functional transforms may run it: nothing has to be written."""
    return not (case.coupled and list(case.build().buffers()))


EXACT_CASES = tuple(c for c in CASES if c.exact)
STATELESS_CASES = tuple(c for c in EXACT_CASES if stateless(c))
TOKEN_CASES = tuple(c for c in CASES if c.row is not None)

__all__ = ["CASES", "EXACT_CASES", "STATELESS_CASES", "TOKEN_CASES", "Case", "scramble"]
