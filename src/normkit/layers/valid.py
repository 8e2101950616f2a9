"""A mask for every masked layer of a model at once: ``with normkit.valid(mask):``."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from normkit.errors import DtypeError, StateError, sentence
from normkit.ops.check import as_bool

_KEY = "normkit.valid"


class _Frame(NamedTuple):
    """An open ``with`` block: what it was opened by, its mask, and the block around it."""

    owner: Valid
    mask: Tensor | None
    outer: _Frame | None


class _Innermost(threading.local):
    """The innermost open ``with`` block of this thread.

    A thread-local attribute and not a ContextVar, because torch.compile can read it: the mask
    becomes an input of the graph, and whether there is one becomes a guard. That holds only for
    an attribute of the instance, as here: a default in the class makes a guard that looks into a
    dictionary that no thread writes to, and a mask that comes or goes is never noticed.
    """

    def __init__(self) -> None:
        self.frame: _Frame | None = None  # runs in each thread that looks


_INNERMOST = _Innermost()


class Valid:
    """What :func:`valid` returns: a context manager, and a decorator.

    One object may be entered again and again, also inside itself and in several threads.

    Attributes:
        mask: bool, True = real; None: every position is.
    """

    def __init__(self, mask: Tensor | None) -> None:
        """Keep the mask."""
        self.mask = mask

    def __enter__(self) -> None:
        """Put the mask before any that is there."""
        _set(_Frame(self, self.mask, _INNERMOST.frame))

    def __exit__(self, *_: object) -> None:
        """Take it away again, also where a generator closes its block after a later one."""
        _set(_without(_INNERMOST.frame, self))

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function or a module: each of its calls sees the mask."""

        @functools.partial(functools.update_wrapper, wrapped=function, updated=())
        def masked(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return masked

    def checkpoint_contexts(self) -> tuple[Valid, Valid]:
        """``context_fn`` of ``torch.utils.checkpoint``: the recomputation sees the mask too."""
        return self, self


def valid(mask: Any) -> Valid:
    """Give a mask to every masked layer that runs inside ``with normkit.valid(mask):``.

    The layers see it wherever they stand: in ``nn.Sequential``, in other people's models. A mask
    that is given to a layer as ``valid=`` wins over it; of nested blocks the inner one wins, and
    ``normkit.valid(None)`` switches the mask off inside. Another thread sees none of it.
    ``normkit.valid(mask)(function)`` is the same block around every call of a function or module.

    Checkpointing recomputes a forward pass later. Wrap what it calls,
    ``checkpoint(normkit.valid(mask)(block), x)``, or give it
    ``context_fn=normkit.valid(mask).checkpoint_contexts``, or call backward inside the ``with``.

    Args:
        mask: bool (or 0 and 1), True = real, (B, T) or whatever the layers take as ``valid``: of
            the shape of x without its channel axis, or broadcastable to it. None: all are real.

    Raises:
        DtypeError: anything else.

    Example:
        >>> import normkit
        >>> from torch import nn
        >>> model = nn.Sequential(nn.Identity(), normkit.MaskedBatchNorm(1))
        >>> x = torch.tensor([[[1.0], [3.0], [9.0]]])
        >>> with normkit.valid(torch.tensor([[True, True, False]])):
        ...     y = model(x)
        >>> y.flatten().round().tolist()
        [-1.0, 1.0, 0.0]
    """
    if mask is None:
        return Valid(None)
    if not isinstance(mask, Tensor):
        rule = "the mask must be a bool tensor, True where a position is real"
        raise DtypeError(sentence("valid", rule, f"it is {type(mask).__name__}"))
    return Valid(as_bool("valid", mask))


def current_valid(layer: nn.Module, valid: Tensor | None) -> Tensor | None:
    """The mask that a layer uses: the one it was given, else that of the ``with`` around it.

    Every layer that takes ``valid`` calls this once at the start of its forward pass, with itself
    and its argument, and hands the result on as its mask: ``functional.NAME(..., valid=mask)``
    then checks it against x. None: every position is real.

    Raises:
        StateError: a recomputation (torch.utils.checkpoint) of a layer that has seen a mask finds
            none; or the model is exported or traced, which would keep this mask for ever.
    """
    if valid is not None:
        return valid
    frame = _INNERMOST.frame
    if frame is None and not torch.compiler.is_compiling() and _in_backward():
        frame = _of_caller()
        if frame is None and getattr(layer, "_masked_by_context", False):
            raise StateError(_lost(layer))
    if frame is None or frame.mask is None:
        return None
    if torch.compiler.is_exporting() or torch._C._get_tracing_state():
        rule = "an exported or traced model cannot take its mask from normkit.valid"
        fix = "Give it to the layer as valid=, from an argument of the model"
        raise StateError(sentence(type(layer).__name__, rule, "it would be a constant", fix))
    if not torch.compiler.is_compiling():  # there a checkpoint refuses whatever is written
        layer._masked_by_context = True  # type: ignore[assignment]
    return frame.mask


def _lost(layer: nn.Module) -> str:
    rule = "a recomputation needs the mask of its first forward pass"
    came = "this one, inside backward, finds none"
    fix = (
        "Call backward inside `with normkit.valid(mask):`, or type "
        "checkpoint(normkit.valid(mask)(block), x)"
    )
    return sentence(type(layer).__name__, rule, came, fix)


def _without(frame: _Frame | None, owner: Valid) -> _Frame | None:
    """The frames without the innermost one of this owner."""
    if frame is None or frame.owner is owner:
        return None if frame is None else frame.outer
    return frame._replace(outer=_without(frame.outer, owner))


def _set(frame: _Frame | None) -> None:
    """Write the innermost frame of this thread, and what its backward passes see in others."""
    _INNERMOST.frame = frame
    if not torch.compiler.is_compiling() and not _in_backward():
        torch._C._stash_obj_in_tls(_KEY, frame)


def _of_caller() -> _Frame | None:
    """The innermost frame of the thread that called backward.

    The engine runs the passes of other devices, and very deep ones, in threads of its own, to
    which it hands torch's thread-local objects.
    """
    found: _Frame | None = torch._C._get_obj_in_tls(_KEY) if torch._C._is_key_in_tls(_KEY) else None
    return found


def _in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1
