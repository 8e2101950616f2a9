"""A placement as a drawing: the stream, the branch, the norms and the scales on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from normkit.explanation.sections import Line, Piece
from normkit.spec import PlacementSpec
from normkit.spec.placement import Branch

NodeKind = Literal["end", "norm", "part", "scale", "sum"]
_PARTS: dict[Branch, tuple[str, str]] = {
    "attention": ("heads", "output"),
    "cross_attention": ("heads", "output"),
    "ffn": ("first", "second"),
}
_NORM_COLOUR = 0


@dataclass(frozen=True)
class Node:
    """A box on the way; ``end`` is a name without a box."""

    kind: NodeKind
    text: str

    @property
    def written(self) -> str:
        """The box in plain text."""
        if self.kind == "sum":
            return "(+)"
        return f"[{self.text}]" if self.kind in ("norm", "part") else self.text


@dataclass(frozen=True, kw_only=True)
class Track:
    """A row of boxes from left to right.

    Attributes:
        title: what the row shows.
        nodes: the boxes.
        skip: what the skip around the branch is multiplied by; None where there is no skip.
        second: what is added to the second stream; None where there is none.
    """

    title: str
    nodes: tuple[Node, ...]
    skip: str | None = None
    second: str | None = None


def whole(spec: PlacementSpec, depth: int) -> Track:
    """The model: where a norm stands outside the layers."""
    norm = Node("norm", "N")
    nodes = [Node("end", "tokens"), Node("part", "embedding")]
    nodes += [norm] if spec.embedding_norm else []
    nodes += [Node("part", f"{depth} layers")]
    if spec.streams == 2:
        nodes += [Node("part", "x + N(s)" if spec.final_norm else "x + s")]
    elif spec.final_norm:
        nodes += [norm]
    return Track(title="model", nodes=(*nodes, Node("part", "head")))


def branch_track(spec: PlacementSpec, branch: Branch, skip: str, scale: str) -> Track:
    """One residual connection; ``skip`` and ``scale`` are texts, empty for a factor of 1."""
    norm = Node("norm", "N")
    first, last = _PARTS[branch]
    nodes = [Node("end", "x")]
    nodes += [norm] if branch in spec.norm_in else []
    if branch in spec.norm_inside or (spec.head_scale and branch == "attention"):
        nodes += [Node("part", first)]
        if spec.head_scale and branch == "attention":
            nodes += [Node("scale", "* head")]
        nodes += [norm] if branch in spec.norm_inside else []
        nodes += [Node("part", last)]
    else:
        nodes += [Node("part", branch.replace("_", " "))]
    nodes += [norm] if branch in spec.norm_out else []
    nodes += [Node("scale", f"* {scale}")] if scale else []
    nodes += [Node("sum", "+")]
    nodes += [norm] if branch in spec.norm_sum else []
    second = None
    if spec.streams == 2:
        factor = spec.second_stream_scale
        second = "" if factor == 1.0 else f"* {factor:g}"
    return Track(
        title=branch.replace("_", " "),
        nodes=(*nodes, Node("end", "x")),
        skip=f"* {skip}" if skip else "",
        second=second,
    )


def lines(track: Track) -> tuple[Line, ...]:
    """Draw a row with line characters; norms carry a colour."""
    pieces: list[Piece] = []
    at, fork, join = 0, 0, 0
    for place, node in enumerate(track.nodes):
        if place:
            forks = place == 1 and track.skip is not None
            dash = " ─┬─ " if forks else " ── "
            fork = at + 2 if forks else fork
            dash = " ─> " if place == len(track.nodes) - 1 else dash
            pieces.append(Piece(dash))
            at += len(dash)
        if node.kind == "sum":
            join = at + 1
        pieces.append(Piece(node.written, _NORM_COLOUR if node.kind == "norm" else None))
        at += len(node.written)
    if track.skip is None:
        return (tuple(pieces),)
    found = [tuple(pieces), *_skip_lines(track.skip, fork, join)]
    if track.second is not None:
        found += _second_stream_lines(track, fork)
    return tuple(found)


def _skip_lines(skip: str, fork: int, join: int) -> list[Line]:
    inside = f" {skip} " if skip else ""
    across = inside.center(join - fork - 1, "─")
    return [
        (Piece(f"{' ' * fork}│{' ' * (join - fork - 1)}│"),),
        (Piece(f"{' ' * fork}└{across}┘"),),
    ]


def _second_stream_lines(track: Track, fork: int) -> list[Line]:
    factor = f" {track.second}" if track.second else ""
    return [(), (Piece(f"s ── (+) what the branch gives{factor} ─> s, never normalised here"),)]


def records(track: Track) -> dict[str, Any]:
    """The row as plain records."""
    return {
        "title": track.title,
        "nodes": [{"kind": node.kind, "text": node.text} for node in track.nodes],
        "skip": track.skip,
        "second": track.second,
    }
