"""PowerNorm: in its first passes, which are exact; after them; in evaluation."""

from __future__ import annotations

from typing import Any

import normkit
from tests.norms.cases.case import Case, built, lengths


def _power(name: str, *, training: bool = True, exact: bool = True, **options: Any) -> Case:
    """A norm of 4 channels of tokens with a mask."""
    return Case(
        name=name,
        build=built(name, normkit.PowerNorm, 4, **options),
        shape=(3, 5, 4),
        op="power_norm" if training else "power_norm_given",
        others=lengths,
        coupled=training,
        exact=exact,
        training=training,
    )


CASES: tuple[Case, ...] = (
    _power("power_norm_warmup"),
    _power("power_norm", exact=False, warmup=0, groups=2),
    _power("power_norm_no_groups", exact=False, warmup=0, groups=None, bias=False),
    _power("power_norm_eval", training=False, groups=2),
)
