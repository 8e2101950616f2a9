"""The written formula is the function: its lines, run as text, give what the real layer gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import normkit
from normkit.explanation.formula import LETTERS, formula, values
from normkit.explanation.layer import build, call, condition
from normkit.explanation.norm import explain_norm
from normkit.explanation.reading import Options, Reading, read
from normkit.explanation.signature import stages
from normkit.spec import NORMS, GainSpec, NormEntry, NormSpec
from tests.explanation.run import Run, along

SINGLE = [name for name, entry in NORMS.items() if isinstance(entry.spec, NormSpec)]
LAST = NormSpec(over=("feature",), gain=GainSpec(bias=True))
RMS = NormSpec(over=("feature",), center=False, scale="rms", eps=1e-6)


def ready(entry: NormEntry, reading: Reading) -> nn.Module:
    """The layer in float64, its parameters at values that no default hides behind."""
    layer = build(entry, reading).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(1 + 0.3 * torch.randn(parameter.shape))
    return layer


def names(entry: NormEntry, reading: Reading, layer: nn.Module, **more: Any) -> dict[str, Any]:
    """What the letters of a formula stand for."""
    known = {
        name: along(reading, p.detach()) for name, p in layer.named_parameters() if "." not in name
    }
    return {**known, **more}


def conditioned(layer: nn.Module, reading: Reading, second: torch.Tensor) -> dict[str, Any]:
    """Scale and shift that an adaptive layer makes of its condition; nothing for another layer."""
    if not hasattr(layer, "projection"):
        return {}
    with torch.no_grad():
        found = layer.projection(torch.nn.functional.silu(condition(reading, second)))
    shift, scale = found[:, None, :].chunk(2, dim=-1)
    return {"scale": scale, "shift": shift}


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("numbers", [False, True])
def test_lines_are_the_layer(name: str, numbers: bool) -> None:
    """Forward in training and the gradient, for every norm of one spec, at random parameters."""
    entry = NORMS[name]
    explained = explain_norm(entry, Options())
    (stage,), reading = explained.stages, explained.reading
    layer = ready(entry, reading)
    x = torch.randn(reading.shape, dtype=torch.float64).mul(1.5).add(0.3).requires_grad_()
    gate = torch.randn(reading.shape, dtype=torch.float64)
    dy = torch.randn(reading.shape, dtype=torch.float64)
    y = call(layer, entry, reading, x, gate)
    (dx,) = torch.autograd.grad(y, x, dy)
    spec = stage.spec
    eps = torch.finfo(torch.float64).eps if spec.eps is None else spec.eps
    known = {"x": x.detach(), "dy": dy, "gate": gate, **conditioned(layer, reading, gate)}
    found = stage.numbers if numbers else stage.symbols
    if not numbers:
        known |= {"n": stage.sharing.size, "eps": eps}
    if "QK" in entry.layers[0]:  # one gain for the queries, another for the keys
        known["weight"] = along(reading, next(layer.parameters()).detach())
    run = Run(spec, reading, {**names(entry, reading, layer), **known})
    close = (
        {"rtol": 1e-5, "atol": 1e-5}
        if numbers and spec.eps is None
        else {"rtol": 1e-9, "atol": 1e-9}
    )
    torch.testing.assert_close(run.lines(found.train)["y"].expand_as(y), y.detach(), **close)
    torch.testing.assert_close(run.lines(found.gradient)["dx"].expand_as(dx), dx, **close)


@pytest.mark.parametrize("name", ["batch_norm", "masked_batch_norm"])
def test_running_lines(name: str) -> None:
    """The lines for running statistics give the buffers, those for evaluation the output."""
    entry = NORMS[name]
    explained = explain_norm(entry, Options())
    (stage,), reading = explained.stages, explained.reading
    layer = ready(entry, reading)
    x = torch.randn(reading.shape, dtype=torch.float64)
    before = {
        n: along(reading, b.double().clone()) for n, b in layer.named_buffers() if b.numel() > 1
    }
    call(layer, entry, reading, x, x)
    run = Run(stage.spec, reading, {**names(entry, reading, layer), **before, "x": x})
    run.lines(stage.numbers.train)
    told = run.lines(stage.numbers.update)
    for buffer in ("running_mean", "running_var"):
        wanted = along(reading, getattr(layer, buffer).double()).expand(reading.shape)
        torch.testing.assert_close(told[buffer].expand(reading.shape), wanted, rtol=1e-6, atol=1e-6)
    layer.eval()
    y = call(layer, entry, reading, x, x)
    told = run.lines(stage.numbers.evaluate)["y"]
    torch.testing.assert_close(told, y.detach(), rtol=1e-6, atol=1e-6)


def test_power_norm() -> None:
    """PowerNorm behind its warm-up, step by step: output, both buffers, its own gradient."""
    explained = explain_norm(NORMS["power_norm"], Options(shape=(2, 3, 4), groups=2))
    reading = explained.reading
    layer = normkit.layers.PowerNorm(4, warmup=0, groups=2).double()
    with torch.no_grad():
        for tensor in (*layer.parameters(), layer.running_square):
            tensor.uniform_(0.5, 2.0)
        layer.running_product.uniform_(-0.3, 0.3)
    before = {n: along(reading, b.clone()) for n, b in layer.named_buffers() if b.numel() > 1}
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    dy = torch.randn(2, 3, 4, dtype=torch.float64)
    y = layer(x)
    y.backward(dy)
    first, second = explained.stages
    scaled = Run(first.spec, reading, {"x": x.detach()})
    power = Run(
        second.spec,
        reading,
        {
            **{n: along(reading, p.detach()) for n, p in layer.named_parameters()},
            **before,
            "x": scaled.lines(first.numbers.train)["y"],
            "dy": dy,
        },
    )
    close = {"rtol": 1e-9, "atol": 1e-9}
    told = power.lines(second.numbers.train)["y"]
    torch.testing.assert_close(told, y.detach(), **close)
    # The gradient meets the statistics that the forward pass met, so they move afterwards.
    scaled.known["dy"] = power.lines(second.numbers.gradient)["dx"]
    torch.testing.assert_close(scaled.lines(first.numbers.gradient)["dx"], x.grad, **close)
    for name in before:
        wanted = along(reading, getattr(layer, name)).expand(2, 3, 4)
        found = (
            power.lines(second.numbers.update)[name]
            if name == "running_square"
            else power.known[name]
        )
        torch.testing.assert_close(found, wanted, **close)


@pytest.mark.parametrize(
    ("spec", "layer"),
    [
        (
            replace(LAST, eps=0.1, eps_place="outside"),
            lambda: normkit.LayerNorm(5, 0.1, eps_place="outside"),
        ),
        (
            replace(LAST, eps=0.8, eps_place="clamp"),
            lambda: normkit.LayerNorm(5, 0.8, eps_place="clamp"),
        ),
        (
            replace(RMS, eps=0.1, eps_place="outside"),
            lambda: normkit.RMSNorm(5, 0.1, eps_place="outside"),
        ),
        (
            replace(RMS, eps=9.0, eps_place="clamp"),
            lambda: normkit.RMSNorm(5, 9.0, eps_place="clamp"),
        ),
        (replace(RMS, fraction=0.5), lambda: normkit.RMSNorm(5, 1e-6, fraction=0.5)),
        (
            replace(RMS, gain=GainSpec(form="zero_centred")),
            lambda: normkit.RMSNorm(5, 1e-6, zero_centred=True),
        ),
    ],
    ids=["outside", "clamp", "rms outside", "rms clamp", "fraction", "zero centred"],
)
def test_options_of_a_spec(spec: NormSpec, layer: Any) -> None:
    """Every field of the spec changes the text as it changes the layer."""
    entry = replace(NORMS["rms_norm"], spec=spec)
    reading = read(entry, Options(shape=(4, 5)))
    real = layer().double()
    with torch.no_grad():
        for parameter in real.parameters():
            parameter.uniform_(0.5, 1.5)
    x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    dy = torch.randn(4, 5, dtype=torch.float64)
    y = real(x)
    (dx,) = torch.autograd.grad(y, x, dy)
    known = {n: p.detach() for n, p in real.named_parameters()}
    run = Run(spec, reading, {**known, "x": x.detach(), "dy": dy})
    found = formula(spec, values(spec, 5))
    torch.testing.assert_close(run.lines(found.train)["y"], y.detach(), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(run.lines(found.gradient)["dx"], dx, rtol=1e-9, atol=1e-9)


def test_unbiased_and_gates() -> None:
    """Fields that no layer of the table sets at its defaults, as text."""
    unbiased = formula(replace(LAST, unbiased=True), LETTERS).train
    assert unbiased[1] == "var = sum((x - mean)^2) / (n - 1)"
    before = replace(RMS, gain=GainSpec(gate="sigmoid", gate_place="before"))
    assert formula(before, LETTERS).train[0] == "x = x * sigmoid(gate)"
    after = replace(RMS, gain=GainSpec(bias=True, gate="silu"))
    assert formula(after, values(after, 4)).train[-1] == (
        "y = (x / sqrt(square + 1e-6) * weight + bias) * silu(gate)"
    )
    cumulative = replace(LAST, stats=normkit.spec.StatsSpec(train="batch", eval="running"))
    assert formula(cumulative, values(cumulative, 4)).update[0] == (
        "running_mean = (1 - 1 / updates) * running_mean + 1 / updates * mean"
    )


def test_central_text() -> None:
    """LayerNorm, word for word."""
    assert formula(LAST, values(LAST, 6)).train == (
        "mean = sum(x) / 6",
        "var = sum((x - mean)^2) / 6",
        "y = (x - mean) / sqrt(var + 1e-5) * weight + bias",
    )


def words(spec: NormSpec) -> list[str]:
    """What the text must hold, by the fields of the spec."""
    gain = spec.gain
    rules = [
        (spec.center, "mean"),
        (spec.scale == "std", "sqrt(var"),
        (spec.scale == "rms", "square"),
        (spec.scale == "l2", "length"),
        (spec.squash != "none", f"{spec.squash}(alpha * x"),
        (spec.squash_shift, "+ shift"),
        (gain.form == "plain", "* weight"),
        (gain.bias, "+ bias"),
        (gain.conditional, "* (1 + scale) + shift"),
        (gain.gate != "none", f"{gain.gate}(gate)"),
        (spec.eps_place == "clamp", "max("),
        (spec.stats.train == "running", "running_"),
    ]
    return [word for holds, word in rules if holds]


@pytest.mark.parametrize("name", NORMS)
def test_mentions_what_the_spec_has(name: str) -> None:
    """Each field of the spec stands in the text, for composites too."""
    for stage, spec in zip(
        explain_norm(NORMS[name], Options()).stages, stages(NORMS[name].spec), strict=True
    ):
        text = "\n".join(stage.symbols.train)
        assert [word for word in words(spec) if word not in text] == []
        if spec.stats.backward == "running":
            assert any(line.startswith("running_product = ") for line in stage.symbols.gradient)
