"""The explanation of a placement at a depth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from normkit.errors import OptionError, sentence
from normkit.explanation import diagram, growth
from normkit.explanation.diagram import Track
from normkit.explanation.explanation import Explanation
from normkit.explanation.growth import LAYER_BRANCHES
from normkit.explanation.numbers import counted, short
from normkit.explanation.sections import Fact, Line, Section, plain_lines
from normkit.spec import PlacementEntry, PlacementSpec, ResidualScale
from normkit.spec.constants import layer_scale_start, stack_constants
from normkit.spec.placement import ALL_BRANCHES, Branch, InitRule

DEPTH = 12
_ROLES = {"ffn": "FFN", "value": "value", "output": "output", "query_key": "query, key"}


@dataclass(frozen=True, kw_only=True)
class Factor:
    """A factor on the skip or on the branch: its symbol (empty for 1), and its value at the start.

    ``words`` says what it is where it is more than a number.
    """

    symbol: str
    start: float
    words: str = ""

    def text(self, numbers: bool) -> str:
        """The symbol, or the number in its place."""
        return short(self.start) if numbers and self.symbol else self.symbol


@dataclass(frozen=True, kw_only=True)
class PlacementExplanation(Explanation):
    """Where norms stand, with the constants of one depth."""

    entry: PlacementEntry
    depth: int
    symbols: tuple[str, ...]
    numbers: tuple[str, ...]
    constants: dict[str, float]
    norms_per_layer: int
    norms_with_cross: int
    norms: int
    gains: dict[str, float]
    tracks: tuple[Track, ...]
    stream: str
    gradient: str

    @property
    def heading(self) -> str:
        """Name, source, depth."""
        return f"{self.title} ({self.source})\nat {counted(self.depth, 'layer')}, N a norm"

    def sections(self) -> Iterator[Section]:
        """All there is to say, in the order in which it is read."""
        yield Section(title="picture", lines=tuple(self._drawn()))
        yield Section(title="formula", lines=plain_lines(self.symbols))
        if self.numbers != self.symbols:
            yield Section(title="the same with its numbers", lines=plain_lines(self.numbers))
        yield Section(title="constants", facts=tuple(self._constants()))
        yield Section(
            title="norms",
            facts=(
                ("in a layer", str(self.norms_per_layer)),
                ("in all", f"{self.norms}{self._outside()}"),
                ("cross attention", f"a layer that has it: {self.norms_with_cross}"),
            ),
        )
        yield Section(title="initial weights, times Xavier's", facts=tuple(self._gains()))
        told = (("stream", self.stream), ("gradient", self.gradient))
        yield Section(title="at the start of training", facts=told)

    def summary(self) -> dict[str, str]:
        """One short text for each question, for a table beside another placement."""
        alone = {n: v for n, v in self.constants.items() if "_" not in n}
        constants = "; ".join(f"{name} {short(value)}" for name, value in alone.items())
        return {
            "formula": "\n".join(self.symbols),
            "with numbers": "\n".join(self.numbers),
            "constants": constants or "none",
            "norms in a layer": str(self.norms_per_layer),
            "norms in all": f"{self.norms}{self._outside()}",
            "initial weights": "; ".join(f"{name} {text}" for name, text in self._gains()),
            "stream": self.stream,
            "gradient": self.gradient,
        }

    def data(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "kind": "placement",
            "name": self.name,
            "title": self.title,
            "source": self.source,
            "spec": asdict(self.entry.spec),
            "depth": self.depth,
            "formula": list(self.symbols),
            "formula_with_numbers": list(self.numbers),
            "constants": self.constants,
            "norms_per_layer": self.norms_per_layer,
            "norms_per_layer_with_cross_attention": self.norms_with_cross,
            "norms": self.norms,
            "initial_gains": self.gains,
            "stream": self.stream,
            "gradient": self.gradient,
            "picture": [diagram.records(track) for track in self.tracks],
        }

    def drawings(self) -> list[dict[str, Any]]:
        """The block as boxes and lines."""
        tracks = [diagram.records(track) for track in self.tracks]
        return [{"kind": "diagram", "title": f"{self.depth} layers", "tracks": tracks}]

    def _drawn(self) -> Iterator[Line]:
        for place, track in enumerate(self.tracks):
            if place:
                yield ()
            yield from plain_lines([f"{track.title}:"])
            yield from diagram.lines(track)

    def _constants(self) -> Iterator[Fact]:
        spec = self.entry.spec
        for scale in (spec.skip_scale, spec.branch_scale):
            found = factor(scale, self.depth)
            if found.symbol:
                yield found.symbol, f"{short(found.start)}{found.words}"
        for name in ("beta", "gamma"):
            if name in self.constants:
                yield name, f"{short(self.constants[name])}, on initial weights"
        if spec.head_scale:
            yield "head", "one learned number per head of attention, starts at 1"
        if not self.constants and not spec.head_scale:
            yield "", "none: nothing depends on the depth"
        stacks = [_stack_words(stack, self.constants) for stack in ("encoder", "decoder")]
        if any(stacks):
            both = f"encoder and decoder of {counted(self.depth, 'layer')} each"
            yield "", f"with {both}: {'; '.join(stacks)}"

    def _gains(self) -> Iterator[Fact]:
        for role, words in _ROLES.items():
            yield words, short(self.gains[role])

    def _outside(self) -> str:
        spec = self.entry.spec
        parts = ["one after the embedding"] if spec.embedding_norm else []
        parts += ["a final one"] if spec.final_norm else []
        return f", with {' and '.join(parts)}" if parts else ""


def _stack_words(stack: str, constants: dict[str, float]) -> str:
    """The constants of one stack of an encoder-decoder model."""
    start = f"{stack}_"
    own = {name: value for name, value in constants.items() if name.startswith(start)}
    told = ", ".join(f"{name.removeprefix(start)} {short(value)}" for name, value in own.items())
    return f"{stack} {told}" if own else ""


def factor(scale: ResidualScale, depth: int) -> Factor:
    """Name a scale and give its value at the start.

    Example:
        >>> factor(ResidualScale(rule="deepnorm", value=None), 12).symbol
        'alpha'
    """
    if scale.rule == "constant":
        value = 1.0 if scale.value is None else scale.value
        return Factor(symbol="" if value == 1.0 else short(value), start=value)
    if scale.rule == "deepnorm":
        alpha = stack_constants(depth, causal=True).alpha
        return Factor(symbol="alpha", start=alpha, words=" = (2 L)^(1/4), on the skip")
    if scale.rule == "learned_vector":
        start = layer_scale_start(depth) if scale.value is None else scale.value
        table = " (0.1 up to 18 layers, 1e-5 up to 24, 1e-6 beyond)" if scale.value is None else ""
        words = f" at the start{table}; one learned number per feature and branch"
        return Factor(symbol="lambda", start=start, words=words)
    start = 1.0 if scale.value is None else scale.value
    if scale.rule == "learned_scalar":
        words = " at the start; one learned number per branch"
        return Factor(symbol="alpha", start=start, words=words)
    return Factor(symbol="omega", start=start, words=" at the start; measured in a first pass")


def explain_placement(entry: PlacementEntry, depth: int) -> PlacementExplanation:
    """Explain a placement; see :func:`normkit.explain`."""
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        rule = "depth must be an integer of at least 1"
        raise OptionError(sentence("explain", rule, f"depth is {depth!r}", "Try depth=12"))
    spec = entry.spec
    skip, scale = factor(spec.skip_scale, depth), factor(spec.branch_scale, depth)
    gains = {role: _gain(getattr(spec.init, role), depth) for role in _ROLES}
    per_layer = _norms(spec, LAYER_BRANCHES)
    return PlacementExplanation(
        name=entry.name,
        title=entry.title,
        source=entry.source,
        entry=entry,
        depth=depth,
        symbols=tuple(_formula(spec, skip, scale, numbers=False)),
        numbers=tuple(_formula(spec, skip, scale, numbers=True)),
        constants=_constants(spec, depth),
        norms_per_layer=per_layer,
        norms_with_cross=_norms(spec, ALL_BRANCHES),
        norms=depth * per_layer + spec.embedding_norm + spec.final_norm,
        gains=gains,
        tracks=(diagram.whole(spec, depth), *_tracks(spec, skip, scale)),
        stream=growth.stream(spec, depth, scale=scale.start, gain=gains["output"]),
        gradient=growth.gradient(spec, depth, skip=skip.start, scale=scale.start),
    )


def _norms(spec: PlacementSpec, branches: tuple[Branch, ...]) -> int:
    places = (spec.norm_in, spec.norm_out, spec.norm_sum, spec.norm_inside)
    return sum(branch in place for branch in branches for place in places)


def _gain(rule: InitRule, depth: int) -> float:
    constants = stack_constants(depth, causal=True)
    return {"one": 1.0, "deepnorm": constants.beta, "sub_ln": constants.gamma}[rule]


def _constants(spec: PlacementSpec, depth: int) -> dict[str, float]:
    """The numbers that depend on depth, by name."""
    alone = stack_constants(depth, causal=True)
    found: dict[str, float] = {}
    for scale in (spec.skip_scale, spec.branch_scale):
        one = factor(scale, depth)
        if one.symbol:
            found[one.symbol] = one.start
    rules = {getattr(spec.init, role) for role in _ROLES}
    names = [*(["beta"] if "deepnorm" in rules else []), *(["gamma"] if "sub_ln" in rules else [])]
    found |= {name: getattr(alone, name) for name in names}
    depends = [*(["alpha"] if spec.skip_scale.rule == "deepnorm" else []), *names]
    for causal, stack in ((False, "encoder"), (True, "decoder")):
        pair = stack_constants(depth, causal=causal, partner_depth=depth)
        found |= {f"{stack}_{name}": getattr(pair, name) for name in depends}
    return found


def _tracks(spec: PlacementSpec, skip: Factor, scale: Factor) -> Iterator[Track]:
    for branch in LAYER_BRANCHES:
        on_skip = skip.symbol if branch in spec.skip_scale.branches else ""
        on_branch = scale.symbol if branch in spec.branch_scale.branches else ""
        yield diagram.branch_track(spec, branch, on_skip, on_branch)


def _formula(spec: PlacementSpec, skip: Factor, scale: Factor, *, numbers: bool) -> Iterator[str]:
    if spec.embedding_norm:
        yield "x = N(embedding)"
    for branch in LAYER_BRANCHES:
        on_skip = skip.text(numbers) if branch in spec.skip_scale.branches else ""
        on_branch = scale.text(numbers) if branch in spec.branch_scale.branches else ""
        yield from _branch_formula(spec, branch, on_skip, on_branch)
    yield from _inside_formula(spec)
    if spec.streams == 2:
        yield "out = x + N(s)" if spec.final_norm else "out = x + s"
    elif spec.final_norm:
        yield "out = N(x)"


def _branch_formula(spec: PlacementSpec, branch: Branch, skip: str, scale: str) -> Iterator[str]:
    y = f"{branch}({'N(x)' if branch in spec.norm_in else 'x'})"
    y = f"N({y})" if branch in spec.norm_out else y
    y = f"{scale} * {y}" if scale else y
    x = f"{skip} * x" if skip else "x"
    if spec.streams == 2:
        yield f"y = {y}"
        factor = spec.second_stream_scale
        yield f"s = s + {'' if factor == 1.0 else f'{short(factor)} * '}y"
        y = "y"
    total = f"{x} + {y}"
    yield f"x = N({total})" if branch in spec.norm_sum else f"x = {total}"


def _inside_formula(spec: PlacementSpec) -> Iterator[str]:
    heads = "head * heads(u)" if spec.head_scale else "heads(u)"
    if "attention" in spec.norm_inside:
        yield f"attention(u) = output(N({heads}))"
    elif spec.head_scale:
        yield f"attention(u) = output({heads})"
    if "ffn" in spec.norm_inside:
        yield "ffn(u) = second(N(activation(first(u))))"
