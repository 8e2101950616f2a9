"""Names of the tests that kill: the shared contract by case, the bounds by norm, dtype, regime."""

from __future__ import annotations

_NORMS = "tests/norms"


def bounds(norm: str, dtype: str, regime: str) -> tuple[str, ...]:
    """One cell of the table of bounds of token norms."""
    return (f"{_NORMS}/test_bounds.py::test_token_norms[{norm}-torch.{dtype}-{regime}]",)


def batch_bounds(mask: str, dtype: str, regime: str) -> tuple[str, ...]:
    """One cell of the table of bounds of batch norms; mask is ``whole`` or ``masked``."""
    return (f"{_NORMS}/test_bounds.py::test_batch_norm[{mask}-torch.{dtype}-{regime}]",)


def contract(topic: str, test: str, case: str = "") -> tuple[str, ...]:
    """One test of the shared contract, for one case where named."""
    which = f"[{case}]" if case else ""
    return (f"{_NORMS}/test_contract_{topic}.py::test_{test}{which}",)


def norm(name: str, test: str = "") -> tuple[str, ...]:
    """The tests of one norm, or one of them."""
    return (f"{_NORMS}/test_{name}.py::test_{test}" if test else f"{_NORMS}/test_{name}.py",)


def blocks(topic: str, test: str) -> tuple[str, ...]:
    """One test of the blocks."""
    return (f"tests/blocks/test_{topic}.py::test_{test}",)


def straight_line(
    placement: str, *, norm: str = "layer_norm", both: bool = False
) -> tuple[str, ...]:
    """One placement against the model written by hand; ``both``: with encoder and decoder."""
    which = f"encoder_decoder[{placement}-padded]" if both else f"padded[{norm}-{placement}]"
    return blocks("straight_line", which)
