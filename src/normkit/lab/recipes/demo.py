"""The first thing to run: three norms in two placements, on real text, in about a minute."""

from __future__ import annotations

from normkit.lab.config import ModelSpec, TrainingSpec
from normkit.lab.recipe import Claim, Grid, Recipe, difference
from normkit.lab.task import TaskSpec

RECIPE = Recipe(
    name="demo",
    title="Which norm, and where?",
    question="Which of LayerNorm, BatchNorm and RMSNorm trains a small language model best, "
    "before or after the sub-layers?",
    task=TaskSpec(shape="windows", length=32),
    model=ModelSpec(width=32, heads=2),
    training=TrainingSpec(steps=200, interval=20, clip_norm=1.0),
    grid=Grid(
        norm=("layer_norm", "batch_norm", "rms_norm"),
        placement=("pre", "post"),
        depth=(4,),
        batch_size=(16,),
        lr=(2e-3,),
    ),
    claims=(
        Claim(
            statement="Without warm-up, Pre-norm trains better than Post-norm",
            source="Xiong et al. 2020, arXiv:2002.04745",
            quantity="validation loss of LayerNorm, Pre-norm minus Post-norm",
            terms=difference(
                "validation_loss",
                {"norm": "layer_norm", "placement": "pre"},
                {"norm": "layer_norm", "placement": "post"},
            ),
            relation="below",
        ),
        Claim(
            statement="BatchNorm validates worse than LayerNorm",
            source="Shen et al. 2020, arXiv:2003.07845",
            quantity="validation loss of BatchNorm minus that of LayerNorm, Pre-norm",
            terms=difference(
                "validation_loss",
                {"norm": "batch_norm", "placement": "pre"},
                {"norm": "layer_norm", "placement": "pre"},
            ),
            relation="above",
        ),
        Claim(
            statement="RMSNorm loses nothing against LayerNorm (at most 0.02 nats/character)",
            source="Zhang and Sennrich 2019, arXiv:1910.07467",
            quantity="validation loss of RMSNorm minus that of LayerNorm, Pre-norm",
            terms=difference(
                "validation_loss",
                {"norm": "rms_norm", "placement": "pre"},
                {"norm": "layer_norm", "placement": "pre"},
            ),
            relation="below",
            threshold=0.02,
        ),
    ),
    notes=(
        "BatchNorm's batch statistics are taken over time too: in training they leak the future, "
        "so its training loss is not comparable. Validation with running statistics does not leak.",
    ),
)
