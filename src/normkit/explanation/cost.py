"""What a norm moves through memory, and what it must ask of other samples and ranks."""

from __future__ import annotations

from dataclasses import dataclass

from normkit.explanation.reading import Reading
from normkit.explanation.sharing import Sharing, share
from normkit.spec import Composite, NormSpec

# One statistic's elements in float32 that a core keeps at hand (256 KiB) while it measures them,
# so that normalising them reads nothing again.
KEPT_ELEMENTS = 2**16


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Elements read and written, in multiples of the N elements of x.

    The least that one kernel per spec moves; parameters and statistics are small and left out.
    """

    forward_reads: int
    forward_writes: int
    backward_reads: int
    backward_writes: int

    def __add__(self, other: Cost) -> Cost:
        """The cost of one after the other."""
        return Cost(
            forward_reads=self.forward_reads + other.forward_reads,
            forward_writes=self.forward_writes + other.forward_writes,
            backward_reads=self.backward_reads + other.backward_reads,
            backward_writes=self.backward_writes + other.backward_writes,
        )


def cost(spec: NormSpec | Composite, reading: Reading) -> Cost:
    """Count what training moves.

    Example:
        >>> from normkit.explanation.reading import Options, read
        >>> from normkit.spec import norm_entry
        >>> entry = norm_entry("layer_norm")
        >>> cost(entry.spec, read(entry, Options(shape=(4, 2, 3))))
        Cost(forward_reads=1, forward_writes=1, backward_reads=2, backward_writes=1)
    """
    if isinstance(spec, NormSpec):
        return _of_one(spec, share(spec, reading))
    total = Cost(forward_reads=0, forward_writes=0, backward_reads=0, backward_writes=0)
    for part in spec:
        total += _of_one(part, share(part, reading))
    return total


def reads_twice(spec: NormSpec, sharing: Sharing) -> bool:
    """Whether x has to be read once to measure it and once more to normalise it."""
    if not spec.over or spec.stats.train == "running":
        return False
    return spec.stats.train == "batch" or sharing.couples_batch or sharing.size > KEPT_ELEMENTS


def _of_one(spec: NormSpec, sharing: Sharing) -> Cost:
    nothing = spec.scale == "none" and spec.squash == "none" and not spec.center
    if nothing and spec.gain.form == "none" and not spec.gain.bias:
        return Cost(forward_reads=0, forward_writes=0, backward_reads=0, backward_writes=0)
    passes = 2 if reads_twice(spec, sharing) else 1
    gate = int(spec.gain.gate != "none")
    return Cost(
        forward_reads=passes + gate,
        forward_writes=1,
        backward_reads=2 * passes + gate,
        backward_writes=1 + gate,
    )


def in_words(found: Cost, reading: Reading) -> tuple[str, str]:
    """Forward and backward as sentences.

    Example:
        >>> from normkit.explanation.reading import Options, read
        >>> from normkit.spec import norm_entry
        >>> entry = norm_entry("layer_norm")
        >>> reading = read(entry, Options(shape=(4, 2, 3)))
        >>> in_words(cost(entry.spec, reading), reading)[0]
        'reads 1 N and writes 1 N, 48 elements in all'
    """

    def text(reads: int, writes: int) -> str:
        if not reads and not writes:
            return "moves nothing"
        total = (reads + writes) * reading.numel
        return f"reads {reads} N and writes {writes} N, {total:,} elements in all"

    return (
        text(found.forward_reads, found.forward_writes),
        text(found.backward_reads, found.backward_writes),
    )
