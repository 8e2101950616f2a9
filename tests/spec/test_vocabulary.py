"""The vocabulary holds every published norm and placement without a further field."""

from __future__ import annotations

import dataclasses
import re

import pytest

import normkit.layers
from normkit.errors import OptionError
from normkit.spec import (
    NORMS,
    PLACEMENTS,
    GainSpec,
    NormSpec,
    PlacementSpec,
    PrecisionSpec,
    ResidualScale,
    StatsSpec,
)
from normkit.spec.placement import ALL_BRANCHES

FEATURE, TOKENS = ("feature",), ("batch", "position")
PLAIN_BIAS = GainSpec(bias=True)
BATCH = StatsSpec(train="batch", eval="running", momentum=0.1, unbiased_running=True)


def rms(**fields: object) -> NormSpec:
    """An RMSNorm with fields changed."""
    return NormSpec(**{"over": FEATURE, "center": False, "scale": "rms", "eps": 1e-6, **fields})  # type: ignore[arg-type]


# Each public norm, as one spec or, where it applies several in turn, as a tuple of them.
PUBLISHED: dict[str, NormSpec | tuple[NormSpec, ...]] = {
    "LayerNorm, Ba 2016": NormSpec(over=FEATURE, gain=PLAIN_BIAS),
    "LayerNorm, BERT": NormSpec(over=FEATURE, eps=1e-12, gain=PLAIN_BIAS),
    "std + eps, n - 1 (annotated Transformer)": NormSpec(
        over=FEATURE, unbiased=True, eps=1e-6, eps_place="outside", gain=PLAIN_BIAS
    ),
    "LayerNorm over position and feature": NormSpec(
        over=("position", "feature"), gain=GainSpec(over="element", bias=True)
    ),
    "LayerNorm, AllenNLP's masked": NormSpec(
        over=("batch", "position", "feature"),
        gain=PLAIN_BIAS,
        stats=StatsSpec(train="batch", eval="batch", masked=True),
    ),
    "RMSNorm, torch": rms(eps=None),
    "RMSNorm, the authors' code": rms(eps=1e-8, eps_place="outside"),
    "RMSNorm, x-transformers": NormSpec(
        over=FEATURE, center=False, scale="l2", eps=1e-12, eps_place="clamp"
    ),
    "RMSNorm, Llama": rms(precision=PrecisionSpec(rounding="before_gain", output_dtype="promoted")),
    "RMSNorm, Gemma": rms(gain=GainSpec(form="zero_centred")),
    "RMSNorm, Apex mixed": rms(precision=PrecisionSpec(output_dtype="weight")),
    "RMSNorm, hand-written in half": rms(precision=PrecisionSpec(compute_dtype="input")),
    "RMSNorm, gated before (Mamba 2)": rms(
        groups=8, gain=GainSpec(gate="silu", gate_place="before")
    ),
    "RMSNorm, gated (Qwen3-Next)": rms(gain=GainSpec(gate="silu", gate_place="after")),
    "pRMSNorm": rms(fraction=0.0625),
    "LayerNorm1P (NeMo)": NormSpec(over=FEATURE, gain=GainSpec(form="zero_centred", bias=True)),
    "ScaleNorm": NormSpec(
        over=FEATURE,
        center=False,
        scale="l2",
        eps_place="clamp",
        gain=GainSpec(over="scalar"),
    ),
    "QK-norm, Henry 2020": NormSpec(
        over=("head",), center=False, scale="l2", eps_place="clamp", gain=GainSpec(over="scalar")
    ),
    "QK-norm, ViT-22B": NormSpec(over=("head",)),
    "QK-norm, Qwen3": rms(over=("head",)),
    "QK-norm, OLMo2 (whole projection)": rms(),
    "DynamicTanh": NormSpec(
        over=(), center=False, scale="none", squash="tanh", eps=0.0, gain=PLAIN_BIAS
    ),
    "DynamicErf": NormSpec(
        over=(),
        center=False,
        scale="none",
        squash="erf",
        squash_shift=True,
        eps=0.0,
        gain=PLAIN_BIAS,
    ),
    "BatchNorm": NormSpec(over=(*TOKENS, "space"), gain=PLAIN_BIAS, stats=BATCH),
    "BatchNorm, masked": NormSpec(
        over=TOKENS, gain=PLAIN_BIAS, stats=dataclasses.replace(BATCH, masked=True)
    ),
    "BatchNorm, powernorm's MaskBatchNorm": NormSpec(
        over=TOKENS,
        eps_place="clamp",
        gain=PLAIN_BIAS,
        stats=StatsSpec(train="batch", eval="batch", masked=True),
    ),
    "BatchNorm, cumulative": NormSpec(
        over=TOKENS, gain=PLAIN_BIAS, stats=dataclasses.replace(BATCH, momentum=None)
    ),
    "PowerNorm": (
        rms(over=("group",), groups=1, eps=1e-5, gain=GainSpec(form="none")),
        NormSpec(
            over=TOKENS,
            center=False,
            scale="rms",
            gain=PLAIN_BIAS,
            stats=StatsSpec(
                train="running",
                eval="running",
                momentum=0.1,
                backward_momentum=0.1,
                warmup=10000,
                backward="running",
                masked=True,
            ),
        ),
    ),
    "PN-V": NormSpec(
        over=TOKENS,
        center=False,
        scale="rms",
        stats=StatsSpec(train="batch", eval="running", momentum=0.1),
    ),
    "GroupNorm": NormSpec(over=("group", "space"), groups=32, gain=PLAIN_BIAS),
    "InstanceNorm": NormSpec(over=("space",), gain=GainSpec(form="none")),
    "LayerNorm over channels of a pixel": NormSpec(over=FEATURE, eps=1e-6, gain=PLAIN_BIAS),
    "adaLN": NormSpec(over=FEATURE, eps=1e-6, gain=GainSpec(form="none", conditional=True)),
    "adaptive RMSNorm": rms(gain=GainSpec(form="none", conditional=True)),
    "no norm": NormSpec(over=(), center=False, scale="none", gain=GainSpec(form="none")),
}


def test_published_norms_are_all_different() -> None:
    specs = list(PUBLISHED.values())
    assert len(set(specs)) == len(specs)


@pytest.mark.parametrize("name", PUBLISHED)
def test_specs_are_data(name: str) -> None:
    spec = PUBLISHED[name]
    for part in spec if isinstance(spec, tuple) else (spec,):
        assert hash(part) == hash(dataclasses.replace(part))
        with pytest.raises(dataclasses.FrozenInstanceError):
            part.eps = 1.0  # type: ignore[misc]


def test_the_registry_speaks_the_vocabulary() -> None:
    for name, entry in NORMS.items():
        assert entry.name == name
        assert entry.spec in PUBLISHED.values() or name in ("masked_batch_norm", "no_norm")
        for layer in entry.layers:
            assert hasattr(normkit.layers, layer), layer
    names = ["post", "pre", "deepnorm", "sandwich", "peri", "sub_ln", "normformer", "residual"]
    assert list(PLACEMENTS) == [*names, "layer_scale", "rezero"]


def test_further_placements_need_no_new_field() -> None:
    olmo2 = PlacementSpec(norm_out=ALL_BRANCHES, final_norm=True)
    admin = PlacementSpec(norm_sum=ALL_BRANCHES, skip_scale=ResidualScale(rule="admin", value=1.0))
    res_scale = PlacementSpec(
        norm_in=ALL_BRANCHES,
        skip_scale=ResidualScale(rule="learned_vector", value=1.0, branches=("ffn",)),
    )
    known = {entry.spec for entry in PLACEMENTS.values()}
    assert len(known | {olmo2, admin, res_scale}) == len(PLACEMENTS) + 3


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"over": ("channel",)},
            "NormSpec: over must be 'batch', 'position', 'space', 'feature', 'group' or 'head'; "
            "over is 'channel'.",
        ),
        (
            {"over": FEATURE, "center": False},
            "NormSpec: a standard deviation is taken around the mean; center is False. "
            "Try scale='rms' for a norm that does not centre.",
        ),
        (
            {"over": FEATURE, "fraction": 0.0},
            "NormSpec: fraction must lie in (0, 1]; fraction is 0.0.",
        ),
    ],
)
def test_nonsense_gets_a_sentence(fields: dict[str, object], text: str) -> None:
    with pytest.raises(OptionError, match=f"^{re.escape(text)}$"):
        NormSpec(**fields)  # type: ignore[arg-type]
