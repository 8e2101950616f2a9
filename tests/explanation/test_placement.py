"""The explanation of a placement, against the blocks that are built from the same spec."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

from normkit.blocks import CausalLM, TokenNorm, TransformerConfig
from normkit.explanation import PlacementExplanation, SideBySide, diagram, explain
from normkit.explanation.placement import explain_placement, factor
from normkit.spec import PLACEMENTS, PlacementSpec, ResidualScale
from normkit.spec.constants import deepnorm_constants, sub_ln_constants


def placement(name: str, depth: int = 12) -> PlacementExplanation:
    """The explanation of one placement."""
    found = explain(name, depth=depth)
    assert isinstance(found, PlacementExplanation)
    return found


def model(name: str, depth: int, width: int = 64) -> CausalLM:
    """A small model of that placement."""
    config = TransformerConfig(
        vocabulary=11, width=width, depth=depth, heads=2, placement=name, activation="relu"
    )
    return CausalLM(config)


@pytest.mark.parametrize("name", PLACEMENTS)
def test_every_placement(name: str) -> None:
    """Each prints within 80 columns, says its source, and gives data that JSON holds."""
    found = placement(name)
    text = str(found)
    assert PLACEMENTS[name].source in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    assert json.loads(json.dumps(found.data()))["name"] == name
    assert all(found.summary().values())


@pytest.mark.parametrize("name", PLACEMENTS)
@pytest.mark.parametrize("depth", [1, 3])
def test_norms_are_counted(name: str, depth: int) -> None:
    """As many norms as a built model has."""
    built = sum(isinstance(part, TokenNorm) for part in model(name, depth, width=8).modules())
    assert placement(name, depth).norms == built


FORMULAS = {
    "post": ("x = N(x + attention(x))", "x = N(x + ffn(x))"),
    "pre": ("x = x + attention(N(x))", "x = x + ffn(N(x))", "out = N(x)"),
    "deepnorm": ("x = N(2.213 * x + attention(x))", "x = N(2.213 * x + ffn(x))"),
    "sandwich": ("x = x + N(attention(N(x)))", "x = x + N(ffn(N(x)))", "out = N(x)"),
    "peri": (
        "x = N(embedding)",
        "x = x + N(attention(N(x)))",
        "x = x + N(ffn(N(x)))",
        "out = N(x)",
    ),
    "sub_ln": (
        "x = x + attention(N(x))",
        "x = x + ffn(N(x))",
        "attention(u) = output(N(heads(u)))",
        "ffn(u) = second(N(activation(first(u))))",
        "out = N(x)",
    ),
    "normformer": (
        "x = x + N(attention(N(x)))",
        "x = x + ffn(N(x))",
        "attention(u) = output(head * heads(u))",
        "ffn(u) = second(N(activation(first(u))))",
        "out = N(x)",
    ),
    "residual": (
        "y = attention(x)",
        "s = s + y",
        "x = N(x + y)",
        "y = ffn(x)",
        "s = s + y",
        "x = N(x + y)",
        "out = x + N(s)",
    ),
    "layer_scale": (
        "x = x + 0.1 * attention(N(x))",
        "x = x + 0.1 * ffn(N(x))",
        "out = N(x)",
    ),
    "rezero": ("x = x + 0 * attention(x)", "x = x + 0 * ffn(x)"),
}


@pytest.mark.parametrize("name", PLACEMENTS)
def test_formula(name: str) -> None:
    """Word for word, at 12 layers."""
    assert placement(name).numbers == FORMULAS[name]


def test_symbols() -> None:
    """Factors have names where they are no plain numbers."""
    assert placement("deepnorm").symbols[0] == "x = N(alpha * x + attention(x))"
    assert placement("layer_scale").symbols[0] == "x = x + lambda * attention(N(x))"
    assert placement("rezero").symbols[1] == "x = x + alpha * ffn(x)"


def test_constants_come_from_one_place() -> None:
    """DeepNorm's and Sub-LN's numbers are those of the formulas that the blocks use."""
    pair = deepnorm_constants(decoder_layers=18).decoder
    assert pair is not None
    found = placement("deepnorm", 18)
    assert (found.constants["alpha"], found.constants["beta"]) == pair
    assert found.gains == {
        "ffn": pair.beta,
        "value": pair.beta,
        "output": pair.beta,
        "query_key": 1.0,
    }
    both = deepnorm_constants(encoder_layers=18, decoder_layers=18)
    assert both.encoder is not None
    assert found.constants["encoder_alpha"] == both.encoder.alpha
    gamma = sub_ln_constants(decoder_layers=18).decoder
    assert placement("sub_ln", 18).gains["ffn"] == gamma == math.sqrt(math.log(36))


@pytest.mark.parametrize(("depth", "start"), [(18, 0.1), (24, 1e-5), (36, 1e-6)])
def test_layer_scale_by_depth(depth: int, start: float) -> None:
    """The table of the paper."""
    assert placement("layer_scale", depth).constants["lambda"] == start


def test_factors() -> None:
    """Rules that no row of the table has."""
    assert factor(ResidualScale(value=0.5), 4).symbol == "0.5"
    assert factor(ResidualScale(rule="admin"), 4).symbol == "omega"
    spec = PlacementSpec(streams=2, second_stream_scale=0.1)
    entry = replace(PLACEMENTS["post"], spec=spec)
    assert "s = s + 0.1 * y" in explain_placement(entry, 2).symbols


def stream_growth(name: str, depth: int) -> float:
    """Mean square of the residual stream behind the last layer of a fresh model, measured."""
    found = []
    net = model(name, depth)
    hook = lambda *call: found.append(call[2])  # noqa: E731
    last = [part for part in net.modules() if type(part).__name__ == "Block"][-1]
    last.register_forward_hook(hook)
    tokens = torch.randint(0, 11, (4, 32))
    with torch.no_grad():
        net(tokens)
    stream = found[0] if isinstance(found[0], torch.Tensor) else found[0][0]
    return float(stream.square().mean())


@pytest.mark.parametrize(
    ("name", "depth", "low", "high"),
    [
        ("post", 6, 0.99, 1.01),
        ("deepnorm", 6, 0.99, 1.01),
        ("residual", 6, 0.99, 1.01),
        ("pre", 6, 4.0, 10.0),
        ("sandwich", 6, 11.0, 15.0),
        ("peri", 6, 11.0, 15.0),
        ("rezero", 6, 0.9, 1.1),
    ],
)
def test_stream_is_measured(name: str, depth: int, low: float, high: float) -> None:
    """What is said of the stream holds in a built model: the sentence's numbers are the band."""
    assert low <= stream_growth(name, depth) <= high


@pytest.mark.parametrize("name", ["sub_ln", "normformer", "sandwich"])
def test_told_growth_is_measured(name: str) -> None:
    """The number in the sentence, within a quarter of what a built model does."""
    told = placement(name, 6).stream
    number = float(told.partition(": ")[2].partition(" after")[0])
    assert stream_growth(name, 6) == pytest.approx(number, rel=0.25)


def test_sentences_about_the_start() -> None:
    """Stream and gradient, word for word."""
    assert placement("pre").stream == (
        "mean square from 1 + L/2 to 1 + 3L/2: 7 to 19 after 12 layers (Xiong et al. 2020, lemma 2)"
    )
    assert placement("peri").stream == "mean square about 1 + 2 L: 25 after 12 layers"
    assert placement("rezero").gradient.startswith("comes through the skips whole; the weights of")
    assert "1 / sqrt(1 + v / 4.899)" in placement("deepnorm").gradient
    assert placement("residual").gradient.endswith("through the second stream it comes whole")


def test_diagram_lines() -> None:
    """The drawing of a row, character by character."""
    spec = PLACEMENTS["normformer"].spec
    track = diagram.branch_track(spec, "attention", "alpha", "lambda")
    drawn = ["".join(piece.text for piece in line) for line in diagram.lines(track)]
    assert drawn == [
        "x ─┬─ [N] ── [heads] ── * head ── [output] ── [N] ── * lambda ── (+) ─> x",
        "   │                                                              │",
        "   └────────────────────────── * alpha ───────────────────────────┘",
    ]
    (norms,) = (
        [piece.text for piece in line if piece.group is not None]
        for line in diagram.lines(track)[:1]
    )
    assert norms == ["[N]", "[N]"]


@pytest.mark.parametrize("name", PLACEMENTS)
def test_diagram_has_the_norms(name: str) -> None:
    """As many norms are drawn as a layer has, and those outside the layers beside it."""
    found = placement(name)
    inside = [node.kind for track in found.tracks[1:] for node in track.nodes].count("norm")
    assert inside == found.norms_per_layer
    outside = str(found).partition("attention:")[0]
    spec = PLACEMENTS[name].spec
    assert outside.count("[N]") + outside.count("N(s)") == spec.embedding_norm + spec.final_norm


def test_side_by_side() -> None:
    """Placements stand side by side too."""
    found = explain("pre", "deepnorm", depth=24)
    assert isinstance(found, SideBySide)
    rows = dict(found.rows)
    assert rows["norms in all"] == ("49, with a final one", "48")
    assert rows["constants"] == ("none", "alpha 2.632; beta 0.2686")
