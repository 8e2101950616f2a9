"""What autograd keeps for the backward pass, in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from normkit.measure.nest import tensors


@dataclass(frozen=True, kw_only=True)
class SavedBytes:
    """Bytes kept alive for the backward pass, each storage counted once.

    Attributes:
        inputs: storages of the arguments, alive anyway as long as the caller holds them.
        parameters: storages of parameters and buffers.
        new: storages that the forward pass made, outputs included: what a better backward saves.
    """

    inputs: int
    parameters: int
    new: int

    @property
    def total(self) -> int:
        """All three together."""
        return self.inputs + self.parameters + self.new


def saved_bytes(fn: Callable[..., Any], *args: Any) -> SavedBytes:
    """Run ``fn(*args)`` once and count what autograd keeps for its backward pass.

    A storage counts once, and whole, however many views of it are saved: a view keeps all of it
    alive. Nothing is kept where nothing requires a gradient. Tensors that an
    ``autograd.Function`` hides on its ``ctx``, past ``save_for_backward``, are not seen.

    Args:
        fn: a module or any function. Parameters and buffers of a module count as parameters.
        args: tensors, or nested tuples, lists and dicts of them; an ``nn.Parameter`` among them
            counts as a parameter.

    Example:
        >>> saved_bytes(torch.exp, torch.zeros(4, requires_grad=True))
        SavedBytes(inputs=0, parameters=0, new=16)
    """
    kept: list[Tensor] = []  # alive until counted, or a freed storage's address could return

    def pack(value: Tensor) -> Tensor:
        kept.append(value)
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        fn(*args)
    arguments = tensors(args)
    owned: list[Tensor] = [t for t in arguments if isinstance(t, nn.Parameter)]
    if isinstance(fn, nn.Module):
        owned += [*fn.parameters(), *fn.buffers()]
    sizes, parameters, inputs = _storages(kept), _storages(owned), _storages(arguments)
    by_parameters = sum(size for key, size in sizes.items() if key in parameters)
    by_inputs = sum(size for key, size in sizes.items() if key in inputs and key not in parameters)
    new = sum(sizes.values()) - by_parameters - by_inputs
    return SavedBytes(inputs=by_inputs, parameters=by_parameters, new=new)


def _storages(values: Iterable[Tensor]) -> dict[int, int]:
    """Size in bytes of each distinct storage, by an address that also tells meta tensors apart."""
    storages = [value.untyped_storage() for value in values]
    return {storage._cdata: storage.nbytes() for storage in storages}
