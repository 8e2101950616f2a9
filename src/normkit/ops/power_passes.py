"""What PowerNorm remembers between the passes of one step: it has a running backward statistic."""

from __future__ import annotations

import uuid
import weakref
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from normkit import reference
from normkit.errors import StateError, sentence

LIMIT = 64  # forward passes that may wait for their backward


class PowerPass(NamedTuple):
    """What one forward pass in training used, as its backward pass and a recomputation need it.

    Attributes:
        square: running mean square before this pass, (C,).
        product: running product of the backward pass, (C,).
        step: how many passes came before, 0-d int64; it names the pass.
    """

    square: Tensor
    product: Tensor
    step: Tensor


class PowerPasses:
    """Memory of one layer, and where its backward statistic is kept.

    A backward pass moves the running product by itself, once for each forward pass, whenever and
    however often it runs. A recomputation (torch.utils.checkpoint) finds the pass that it repeats
    by the mean square of its input, to the bit, among the last 64; it uses the same statistics
    and moves none. The memory is no state: copies and pickles begin with an empty one.

    Args:
        product: (C,) tensor that backward passes write to, or a function that returns it.
    """

    def __init__(self, product: Tensor | Callable[[], Tensor | None]) -> None:
        """Begin with no pass."""
        self._product = product
        self._recent: deque[tuple[Tensor, PowerPass]] = deque(maxlen=LIMIT)
        self._repeated: set[int] = set()
        self._applied: Tensor | None = None
        self._cursor = 0
        number = uuid.uuid4().int >> 65  # no other memory's, in this process or another
        # A tensor, because compiled code would be compiled anew for each layer that holds an int.
        self.handle = torch.tensor(number, device="cpu")
        _KNOWN[number] = self

    def settled(self, key: Tensor, now: PowerPass) -> tuple[PowerPass, bool]:
        """(what this pass uses, whether it is a new one). ``key``: mean square of the batch."""
        if torch._C._current_graph_task_id() == -1:
            self._recent.append((key, now))
            return now, True
        same = [i for i, (other, _) in enumerate(self._recent) if _same_bits(other, key)]
        if not same:
            rule = f"a recomputation must repeat one of the last {LIMIT} forward passes to the bit"
            fix = "Checkpoint with preserve_rng_state=True, and keep fewer passes waiting"
            raise StateError(sentence("PowerNorm", rule, "none had this mean square", fix))
        new = [i for i in same if id(self._recent[i][1].step) not in self._repeated]
        found = self._recent[(new or same)[-1]][1]
        alive = {id(one.step) for _, one in self._recent}
        self._repeated = (self._repeated & alive) | {id(found.step)}
        return found, False

    @torch.no_grad()
    def move(self, step: Tensor, gamma: Tensor, product: Tensor, momentum: float) -> None:
        """Move the running product for the pass ``step``, unless that was done before."""
        kept = self._product if isinstance(self._product, Tensor) else self._product()
        if kept is None:
            return
        if self._applied is None or self._applied.device != step.device:
            self._applied = torch.full((LIMIT,), -1, device=step.device)
        old = kept.to(product.dtype)
        new = reference.power_product(old, gamma, product, momentum)
        wanted = (self._applied != step).all() & new.isfinite()
        kept.copy_(torch.where(wanted, new, old))
        self._applied[self._cursor % LIMIT] = step
        self._cursor += 1


_KNOWN: weakref.WeakValueDictionary[int, PowerPasses] = weakref.WeakValueDictionary()


def passes_of(handle: Tensor | None) -> PowerPasses | None:
    """The memory behind a handle; None without one, and in an exported model."""
    return None if handle is None else _KNOWN.get(int(handle))


def _same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two statistics are equal to the bit, NaN included."""
    return a.shape == b.shape and torch.equal(a.view(torch.uint8), b.view(torch.uint8))
