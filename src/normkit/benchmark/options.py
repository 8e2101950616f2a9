"""What a person asks for, as words, turned into what is run; wrong words are one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import torch

from normkit.benchmark.entries import OPS
from normkit.benchmark.entry import MODES, BenchOp, Mode, Shape
from normkit.benchmark.peers import OURS, PEERS
from normkit.benchmark.task import dtype_name, shape_words
from normkit.errors import OptionError, choices, sentence

WHO = "bench"
DTYPES = {dtype_name(d): d for d in (torch.float32, torch.bfloat16, torch.float16, torch.float64)}
DEVICES = ("cpu", "cuda")
SLOW = ("compile",)  # takes many seconds for each row; only where it is asked for
ALL = "all"
ONE_TOKEN: Shape = (1, 4096)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One row of the table for each implementation."""

    op: BenchOp
    mode: Mode
    shape: Shape
    dtype: torch.dtype
    threads: int
    against: tuple[str, ...]

    @property
    def words(self) -> str:
        """``rms_norm forward float32 4096x1024, 2 threads``."""
        what = f"{self.op.name} {self.mode} {dtype_name(self.dtype)} {shape_words(self.shape)}"
        return f"{what}, {self.threads} thread{'s' * (self.threads > 1)}"


@dataclass(frozen=True)
class Words:
    """The options as they are typed; None where nothing was."""

    op: str | None = None
    shape: str | None = None
    dtype: str | None = None
    mode: str | None = None
    against: str | None = None
    threads: str | None = None
    device: str = "cpu"

    @property
    def empty(self) -> bool:
        """Whether the default table is asked for."""
        return all(word is None for word in (self.op, *self.shaped()))

    def shaped(self) -> tuple[str | None, ...]:
        """What says how an op is run."""
        return (self.shape, self.dtype, self.mode, self.threads)

    def others(self) -> tuple[str | None, ...]:
        """All but the op; None where nothing was typed."""
        return (*self.shaped(), self.against, None if self.device == "cpu" else self.device)


def cells(words: Words) -> list[Cell]:
    """Every combination of what was asked for; the default table where nothing was.

    Raises:
        OptionError: a word that means nothing, or a combination that no op can do.

    Example:
        >>> [cell.words for cell in cells(Words(op="rms_norm", mode="forward", shape="8x16",
        ...                                     dtype="float32", threads="1"))]
        ['rms_norm forward float32 8x16, 1 thread']
    """
    _check_device(words.device)
    against = read_against(words.against)
    threads = _threads(words.threads)
    if words.empty:
        return default_cells(against, threads[0])
    ops = [OPS[n] for n in _names("op", words.op, tuple(OPS), "layer_norm,rms_norm")]
    dtypes = [DTYPES[n] for n in _names("dtype", words.dtype, tuple(DTYPES), "float32,bfloat16")]
    modes = _modes(words.mode, ops)
    shapes: list[Shape | None] = [None]
    if words.shape is not None:
        shapes = [*map(_shape, _split(words.shape) or [""])]
    return [
        Cell(
            op=op,
            mode=mode,
            shape=_fitting(op, mode, shape),
            dtype=dtype,
            threads=count,
            against=against,
        )
        for op, shape, dtype, mode, count in product(ops, shapes, dtypes, modes, threads)
        if mode in op.modes
    ]


def default_cells(against: tuple[str, ...], threads: int) -> list[Cell]:
    """The table without arguments: what most models have, one long row, one token."""

    def cell(name: str, mode: Mode, dtype: str = "float32", **other: object) -> Cell:
        found = {"shape": OPS[name].shape, "threads": threads, **other}
        return Cell(op=OPS[name], mode=mode, dtype=DTYPES[dtype], against=against, **found)  # type: ignore[arg-type]

    both: tuple[Mode, ...] = ("forward", "forward_backward")
    names = [n for n in ("layer_norm", "rms_norm", "add_rms_norm") if n in OPS]
    found = [cell(n, mode, d) for n in names for d in ("float32", "bfloat16") for mode in both]
    found += [cell("channel_layer_norm", mode) for mode in both]
    counts = sorted({1, threads})
    found += [cell("layer_norm", "forward", shape=(1, 262144), threads=n) for n in counts]
    found += [cell(n, "module", shape=ONE_TOKEN) for n in ("layer_norm", "rms_norm")]
    return found


def read_against(text: str | None) -> tuple[str, ...]:
    """Names of peers; all that are quick to set up where nothing is said."""
    others = tuple(name for name in PEERS if name != OURS)
    if text is None:
        return tuple(name for name in others if name not in SLOW)
    return _names("against", text, others)


def _names(
    option: str, text: str | None, allowed: tuple[str, ...], default: str = ""
) -> tuple[str, ...]:
    words = _split(default if text is None else text)
    if words == [ALL]:
        return allowed
    for word in words:
        if word not in allowed:
            rule = f"{option} must be {choices(allowed)}, or 'all'"
            raise OptionError(sentence(WHO, rule, f"{option} is {word!r}"))
    if not words:
        rule = f"{option} must be {choices(allowed)}, or 'all'"
        raise OptionError(sentence(WHO, rule, f"{option} is empty"))
    return tuple(dict.fromkeys(words))


def _modes(text: str | None, ops: Iterable[BenchOp]) -> tuple[Mode, ...]:
    names = _names("mode", text, MODES, "forward,forward_backward")
    modes = tuple(mode for mode in MODES if mode in names)
    if modes == ("module",) and not any("module" in op.modes for op in ops):
        having = choices(name for name, op in OPS.items() if op.modules)
        rule = f"mode module needs an op with a module, {having}"
        raise OptionError(sentence(WHO, rule, f"op is {', '.join(op.name for op in ops)!r}"))
    return modes


def _shape(text: str) -> Shape:
    words = text.strip(" ()[]").split("x")
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        rule = "shape must be sizes above 0 with x between, several with commas"
        raise OptionError(sentence(WHO, rule, f"shape is {text!r}", "Try --shape 4096x1024"))
    return tuple(int(word) for word in words)


def _fitting(op: BenchOp, mode: Mode, shape: Shape | None) -> Shape:
    """The shape for this op, or the op's own."""
    if shape is None:
        return ONE_TOKEN if mode == "module" else op.shape
    if len(shape) not in op.axes or (op.name == "group_norm" and shape[1] % 32):
        axes = " or ".join(map(str, op.axes))
        more = ", with channels that 32 groups share" if op.name == "group_norm" else ""
        rule = f"{op.name} needs a shape of {axes} axes{more}"
        fix = f"Try --shape {shape_words(op.shape)}"
        raise OptionError(sentence(WHO, rule, f"shape is {shape_words(shape)}", fix))
    return shape


def _threads(text: str | None) -> tuple[int, ...]:
    if text is None:
        return (torch.get_num_threads(),)
    words = _split(text)
    if not words or not all(word.isdecimal() and int(word) > 0 for word in words):
        rule = "threads must be a whole number above 0, several with commas"
        raise OptionError(sentence(WHO, rule, f"threads is {text!r}"))
    return tuple(int(word) for word in words)


def _check_device(device: str) -> None:
    if device not in DEVICES:
        rule = f"device must be {choices(DEVICES)}"
        raise OptionError(sentence(WHO, rule, f"device is {device!r}"))
    if device == "cuda" and not torch.cuda.is_available():
        raise OptionError(
            sentence(WHO, "device cuda needs a GPU that torch can use", "it sees none")
        )


def _split(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def missing_peers(names: Sequence[str]) -> list[str]:
    """A sentence for each peer whose package is not installed."""
    return [text for name in names if (text := PEERS[name].missing()) is not None]
