"""How a norm behaves: in training and evaluation, with one sample, with padding, in time, on ranks.

Everything is read off which axes share and where the statistics come from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from normkit.explanation.numbers import counted
from normkit.explanation.reading import Reading
from normkit.explanation.sharing import Sharing, share
from normkit.spec import Composite, NormSpec


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """Sentences, one for each question that a person asks about a norm."""

    train: str
    evaluate: str
    batch_of_one: str
    padding: str
    causal: str
    distributed: str


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """What the sentences are made from; of a composite, the spec that reaches furthest."""

    spec: NormSpec
    sharing: Sharing
    reading: Reading
    takes_mask: bool

    @property
    def stateful(self) -> bool:
        return "running" in (self.spec.stats.train, self.spec.stats.eval)

    @property
    def couples(self) -> bool:
        """In training an output depends on other samples."""
        return self.sharing.couples_batch


def behaviour(spec: NormSpec | Composite, reading: Reading, *, takes_mask: bool) -> Behaviour:
    """Answer the questions for a norm on a shape; ``takes_mask``: its layer accepts ``valid``."""
    parts = (spec,) if isinstance(spec, NormSpec) else spec
    widest = max(parts, key=lambda part: (part.stats.train != "own", len(part.over)))
    facts = _Facts(
        spec=widest, sharing=share(widest, reading), reading=reading, takes_mask=takes_mask
    )
    return Behaviour(
        train=_train(facts),
        evaluate=_evaluate(facts),
        batch_of_one=_batch_of_one(facts),
        padding=_padding(facts),
        causal=_causal(facts),
        distributed=_distributed(facts),
    )


def _train(f: _Facts) -> str:
    stats = f.spec.stats
    if not f.spec.over:
        return "no statistics: each element alone"
    if stats.train == "own":
        coupled = " (the batch is among the shared axes)" if f.couples else ""
        return f"statistics of x itself{coupled}"
    what = "real positions only" if stats.masked else "all positions, padding included"
    if stats.train == "batch":
        return f"statistics of the batch ({what}); moves the running ones"
    warm = f" the first {stats.warmup:,} updates use the batch's;" if stats.warmup else ""
    return f"running statistics, known before the batch;{warm} then moved by the batch ({what})"


def _evaluate(f: _Facts) -> str:
    if not f.stateful:
        return "the same as in training"
    return "running statistics, which are constants: each element alone; can be folded away"


def _batch_of_one(f: _Facts) -> str:
    if not f.couples:
        return "the same result as in any batch"
    batch = math.prod(axis.size for axis in f.reading.axes if axis.role == "batch")
    left = f.sharing.size // batch
    change = f"n falls from {f.sharing.size:,} to {left:,} in training"
    if batch == 1:
        change = f"this is one, with n = {left:,}"
    if f.spec.stats.train == "running":
        return f"{change}: noisier running statistics; evaluation is unchanged"
    if left == 1:
        after = "the output would be the bias alone"
        kept = "; evaluation is unchanged" if f.stateful else ""
        return f"{change}: one value has no spread, {after}{kept}"
    kept = "evaluation is unchanged" if f.stateful else "other results, in evaluation too"
    return f"{change}: noisier statistics; {kept}"


def _padding(f: _Facts) -> str:
    stats = f.spec.stats
    if stats.masked:
        return "give valid=: padded positions count nowhere and come out as 0"
    reaches = f.sharing.spans_places or f.couples
    if not reaches:
        return "a padded position changes no other one; no mask needed here"
    seen = "padding enters the statistics of real positions"
    if f.takes_mask:
        return f"without a mask {seen}; with valid= it does not"
    return f"{seen}{' in training' if f.stateful else ''}; takes no mask"


def _causal(f: _Facts) -> str:
    roles = {axis.role for axis in f.reading.axes}
    if not roles & {"position", "space"}:
        return "no axis of positions here"
    if not f.sharing.spans_places:
        return "safe: a position sees no other position"
    # Space has no order, but the same layer may stand on a sequence.
    leaks = "leaks the future" if "position" in roles else "read as time, space leaks the future"
    if f.spec.stats.train == "running":
        warm = f" in the first {f.spec.stats.warmup:,} updates" if f.spec.stats.warmup else ""
        return f"{leaks}{warm}, while it uses the batch's statistics; not afterwards"
    if f.stateful:
        where = "in training, where a position's statistics see later ones; not in evaluation"
        return f"{leaks} {where}"
    return f"{leaks} in training and evaluation: a position's statistics see later ones"


def _distributed(f: _Facts) -> str:
    if not f.spec.over:
        return "nothing to send"
    if not f.couples:
        return "no statistic crosses a rank; gradients of parameters ride in the all-reduce"
    if not f.stateful:
        return "samples on other ranks are left out, so the split of the batch changes the result"
    numbers = f.sharing.count * (1 + int(f.spec.center))
    sent = counted(numbers, "number")
    alone = "each rank uses its own part of the batch"
    return f"{alone} unless synchronised: {sent} and a count, forward and backward, in every layer"
