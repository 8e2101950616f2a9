"""The formula of a norm, written out from the fields of its spec.

Every line is an assignment in plain text; `sum` runs over the elements that share a statistic, and
``^`` is a power. Written twice: in symbols, and with the numbers of one tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from normkit.explanation.numbers import short
from normkit.spec import NormSpec

_STATISTICS = {"std": "var", "rms": "square", "l2": "length"}


@dataclass(frozen=True, kw_only=True)
class Symbols:
    """How the quantities of a formula are called: by letters, or by their values."""

    n: str
    n_minus_1: str
    k: str
    eps: str
    momentum: str
    keep: str
    backward_momentum: str
    unbiased: str


@dataclass(frozen=True, kw_only=True)
class Formula:
    """The lines of a formula.

    Attributes:
        train, evaluate: the function in each mode; ``evaluate`` is empty where it is the same.
        update: what happens to running statistics in training.
        gradient: dx from dy, where the statistics are differentiated or a source replaces them.
    """

    train: tuple[str, ...]
    evaluate: tuple[str, ...] = ()
    update: tuple[str, ...] = ()
    gradient: tuple[str, ...] = ()


LETTERS = Symbols(
    n="n",
    n_minus_1="(n - 1)",
    k="k",
    eps="eps",
    momentum="momentum",
    keep="(1 - momentum)",
    backward_momentum="momentum",
    unbiased=" * n / (n - 1)",
)


def values(spec: NormSpec, n: int) -> Symbols:
    """Symbols of a formula for statistics of ``n`` elements each."""
    momentum = spec.stats.momentum
    backward = spec.stats.backward_momentum
    # A norm with eps=None computes with the machine epsilon of float32, as torch does.
    eps = torch.finfo(torch.float32).eps if spec.eps is None else spec.eps
    return Symbols(
        n=str(n),
        n_minus_1=str(max(n - 1, 1)),
        k=str(max(int(n * spec.fraction), 1)),
        eps=short(eps),
        momentum="1 / updates" if momentum is None else short(momentum),
        keep="(1 - 1 / updates)" if momentum is None else short(1 - momentum),
        backward_momentum=short(backward) if backward is not None else "",
        unbiased=f" * {n} / {max(n - 1, 1)}",
    )


def formula(spec: NormSpec, symbols: Symbols) -> Formula:
    """Write the formula of one spec.

    Example:
        >>> spec = NormSpec(over=("feature",), center=False, scale="rms", eps=1e-6)
        >>> formula(spec, values(spec, 8)).train
        ('square = sum(x^2) / 8', 'y = x / sqrt(square + 1e-6) * weight')
    """
    statistics = tuple(_statistics(spec, symbols))
    y = f"y = {_gained(spec, _normalised(spec, symbols))}"
    running = f"y = {_gained(spec, _normalised(spec, symbols, 'running_'))}"
    gate = (f"x = x * {spec.gain.gate}(gate)",) if _gated(spec, "before") else ()
    source = spec.stats.train
    train = (*gate, *statistics, running if source == "running" else y)
    return Formula(
        train=train,
        evaluate=(*gate, running) if spec.stats.eval == "running" and source != "running" else (),
        update=tuple(_update(spec, symbols)),
        gradient=tuple(_gradient(spec, symbols)),
    )


def _statistics(spec: NormSpec, s: Symbols) -> Iterator[str]:
    part, n, unbiased = "x", s.n, s.n_minus_1
    if spec.fraction < 1:
        part, n, unbiased = "x[first k]", s.k, f"({s.k} - 1)"
    if spec.center:
        yield f"mean = sum({part}) / {n}"
    around = f"({part} - mean)" if spec.center else part
    if spec.scale == "l2":
        yield f"length = sqrt(sum({around}^2))"
    elif spec.scale != "none":
        divisor = unbiased if spec.unbiased else n
        yield f"{_STATISTICS[spec.scale]} = sum({around}^2) / {divisor}"


def _normalised(spec: NormSpec, s: Symbols, prefix: str = "") -> str:
    if spec.squash != "none":
        shift = " + shift" if spec.squash_shift else ""
        return f"{spec.squash}(alpha * x{shift})"
    x = f"(x - {prefix}mean)" if spec.center else "x"
    return x if spec.scale == "none" else f"{x} / {_divisor(spec, s, prefix)}"


def _divisor(spec: NormSpec, s: Symbols, prefix: str = "") -> str:
    name = f"{prefix}{_STATISTICS[spec.scale]}"
    square, root = (f"{name}^2", name) if spec.scale == "l2" else (name, f"sqrt({name})")
    if spec.eps_place == "inside":
        return f"sqrt({square} + {s.eps})"
    return f"({root} + {s.eps})" if spec.eps_place == "outside" else f"max({root}, {s.eps})"


def _gated(spec: NormSpec, place: str) -> bool:
    return spec.gain.gate != "none" and spec.gain.gate_place == place


def _gained(spec: NormSpec, value: str) -> str:
    factor = _factor(spec)
    text = f"{value} * {factor}" if factor else value
    text += " + bias" if spec.gain.bias else ""
    text += " + shift" if spec.gain.conditional else ""
    if not _gated(spec, "after"):
        return text
    adds = spec.gain.bias or spec.gain.conditional
    return f"({text}) * {spec.gain.gate}(gate)" if adds else f"{text} * {spec.gain.gate}(gate)"


def _factor(spec: NormSpec) -> str:
    own = {"none": "", "plain": "weight", "zero_centred": "(1 + weight)"}[spec.gain.form]
    parts = [own, "(1 + scale)" if spec.gain.conditional else ""]
    return " * ".join(part for part in parts if part)


def _update(spec: NormSpec, s: Symbols) -> Iterator[str]:
    if "running" not in (spec.stats.train, spec.stats.eval):
        return
    if spec.center:
        yield f"running_mean = {s.keep} * running_mean + {s.momentum} * mean"
    if spec.scale != "none":
        name = _STATISTICS[spec.scale]
        more = s.unbiased if spec.stats.unbiased_running else ""
        yield f"running_{name} = {s.keep} * running_{name} + {s.momentum} * {name}{more}"


def _gradient(spec: NormSpec, s: Symbols) -> Iterator[str]:
    factor = _factor(spec)
    gate = f" * {spec.gain.gate}(gate)" if _gated(spec, "after") else ""
    g = f"dy{f' * {factor}' if factor else ''}{gate}"
    if spec.squash != "none":
        inside = "alpha * x + shift" if spec.squash_shift else "alpha * x"
        yield f"dx = {g} * alpha * {_SLOPES[spec.squash].format(inside)}"
    elif spec.scale == "none":
        yield f"g = {g}"
        yield f"dx = g - sum(g) / {s.n}" if spec.center else "dx = g"
    elif spec.stats.backward == "running":
        yield from _running_gradient(spec, s, g)
    else:
        yield from _exact_gradient(spec, s, g)


_SLOPES = {
    "tanh": "(1 - tanh({})^2)",
    "erf": "2 / sqrt(pi) * exp(-({})^2)",
}


def _exact_gradient(spec: NormSpec, s: Symbols, g: str) -> Iterator[str]:
    divisor = _divisor(spec, s)
    k = "" if spec.eps_place == "inside" else " * k"
    measured = "[first k]" if spec.fraction < 1 else ""
    n = s.k if spec.fraction < 1 else s.n
    share = "" if spec.scale == "l2" else f" / {n}"
    mean = f" - sum(g) / {n}" if spec.center else ""
    yield f"g = {g}"
    yield f"x_hat = {_normalised(spec, s)}"
    if k:
        root = "length" if spec.scale == "l2" else f"sqrt({_STATISTICS[spec.scale]})"
        above = f"{divisor} / {root}" if spec.eps_place == "outside" else f"{root} >= {s.eps}"
        yield f"k = {above}"
    yield f"dx = (g{mean} - x_hat{measured}{k} * sum(g * x_hat){share}) / {divisor}"


def _running_gradient(spec: NormSpec, s: Symbols, g: str) -> Iterator[str]:
    yield f"g = {g}"
    yield f"x_hat = {_normalised(spec, s, 'running_')}"
    yield f"dx = (g - running_product * x_hat) / {_divisor(spec, s, 'running_')}"
    yield f"keep = 1 - {s.backward_momentum} * sum(x_hat^2) / {s.n}"
    moved = f"{s.backward_momentum} * sum(g * x_hat) / {s.n}"
    yield f"running_product = keep * running_product + {moved}"
