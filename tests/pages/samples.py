"""Made-up but realistic results: losses that fall, spread over seeds, and runs that diverge."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

from normkit.pages import (
    Axes,
    Chart,
    Details,
    Page,
    Reference,
    Table,
    VerdictCard,
    interval_chart,
    loss_curves,
)

Row = dict[str, Any]

NORMS = {
    "layer_norm": 1.50,
    "batch_norm": 1.58,
    "masked_batch_norm": 1.54,
    "rms_norm": 1.49,
    "no_norm": 2.05,
}
PLACEMENTS = {"post": 0.12, "pre": 0.0}
UNIGRAM = Reference(value=3.05, label="unigram entropy")

LOSS_AXES = Axes(
    x="step",
    x_title="training step",
    y="value",
    y_title="validation loss (nats/character)",
    series="norm",
    facet="placement",
    facet_title="placement",
    series_order=tuple(NORMS),
)
DEPTH_AXES = Axes(
    x="depth",
    x_title="depth (layers)",
    x_scale="log",
    y="value",
    y_title="final training loss (nats/character)",
    series="placement",
)
BATCH_AXES = Axes(
    x="batch_size",
    x_title="batch size (lines)",
    x_scale="category",
    y="value",
    y_title="validation loss (nats/character)",
    series="norm",
    series_order=tuple(NORMS),
)


def training_rows(
    steps: Sequence[int],
    *,
    placements: Sequence[str] = tuple(PLACEMENTS),
    seeds: int = 3,
    diverge: bool = True,
) -> list[Row]:
    """Losses that fall from about 4.6; no_norm under post diverges in its last seeds."""
    rows = []
    dice = random.Random(0)
    last = steps[-1]
    for norm, floor in NORMS.items():
        for placement in placements:
            for seed in range(seeds):
                level = floor + PLACEMENTS.get(placement, 0.05) + dice.gauss(0, 0.02)
                fatal = diverge and norm == "no_norm" and placement == "post" and seed > 0
                for step in steps:
                    fall = (4.6 - level) * math.exp(-8 * step / last)
                    value = level + fall + dice.gauss(0, 0.015)
                    lost = fatal and step > last * (0.3 + 0.1 * seed)
                    rows.append(
                        {
                            "norm": norm,
                            "placement": placement,
                            "seed": seed,
                            "step": step,
                            "value": None if lost else value,
                        }
                    )
    return rows


def depth_rows() -> list[Row]:
    """Post-LN stops learning when it is deep, and two of its seeds diverge at 48 layers."""
    dice = random.Random(1)
    floors = {"post": 2.0, "pre": 1.95, "deepnorm": 1.9}
    return [
        {
            "placement": placement,
            "depth": depth,
            "seed": seed,
            "value": math.nan
            if placement == "post" and depth == 48 and seed < 2
            else (3.04 if placement == "post" and depth > 12 else floor - 0.005 * depth)
            + dice.gauss(0, 0.02),
        }
        for placement, floor in floors.items()
        for depth in (2, 6, 12, 24, 48)
        for seed in range(3)
    ]


def batch_rows() -> list[Row]:
    """Smaller batches end higher; no_norm explodes at batch 2."""
    dice = random.Random(2)
    return [
        {
            "norm": norm,
            "batch_size": size,
            "seed": seed,
            "value": 1e6
            if norm == "no_norm" and size == 2
            else floor + 1 / size + dice.gauss(0, 0.02),
        }
        for norm, floor in NORMS.items()
        for size in (32, 4, 2)
        for seed in range(3)
    ]


def charts(steps: Sequence[int] = range(0, 1000, 10)) -> list[Chart]:
    """One chart of each kind of x axis."""
    return [
        loss_curves(
            training_rows(steps),
            axes=LOSS_AXES,
            name="loss",
            title="Validation loss during training",
            references=[UNIGRAM],
        ),
        interval_chart(
            depth_rows(), axes=DEPTH_AXES, name="depth", title="Loss by depth", references=[UNIGRAM]
        ),
        interval_chart(batch_rows(), axes=BATCH_AXES, name="batch", title="Loss by batch size"),
    ]


def page() -> Page:
    """A page with everything on it."""
    return Page(
        title="Which norm and which placement trained best?",
        lead="Five norms, two placements, three seeds each, on Python's own help texts.",
        verdicts=[
            VerdictCard(
                claim="LayerNorm trains better than BatchNorm in a small Transformer.",
                source="Shen et al. 2020, https://arxiv.org/abs/2003.07845",
                verdict="holds",
                sentence="LayerNorm ends 0.081 nats/character lower (95% interval 0.032 to 0.130, "
                "3 seeds).",
                details={"seed 0": "-0.0810", "seed 1": "-0.0790", "seed 2": "-0.0830"},
            ),
            VerdictCard(
                claim="RMSNorm trains as well as LayerNorm.",
                source="Zhang and Sennrich 2019",
                verdict="undecided",
                sentence="The difference is 0.002 (95% interval -0.010 to 0.014); about 12 seeds "
                "would decide.",
            ),
        ],
        charts=charts(),
        tables=[
            Table(
                title="Runs",
                columns={
                    "norm": "norm",
                    "batch_size": "batch size",
                    "seed": "seed",
                    "value": "validation loss (nats/character)",
                },
                rows=batch_rows(),
            )
        ],
        details=[
            Details(title="Configuration", items={"width": 128, "depth": 2, "learning rate": 1e-3}),
            Details(title="Versions", items={"torch": "2.13.0"}),
        ],
    )
