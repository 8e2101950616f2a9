"""LayerNorm against BatchNorm in a Transformer language model: what articles say, measured."""

from __future__ import annotations

from normkit.lab.config import ModelSpec, TrainingSpec
from normkit.lab.recipe import AxisChart, Claim, Grid, Recipe, Term, Where, difference
from normkit.lab.task import TaskSpec

SHEN = "Shen et al. 2020, arXiv:2003.07845"
ARTICLES = "a common statement in articles on LayerNorm"
COLLAPSE = 0.5  # nats/character: what we take "training collapses" to mean
SAME = 0.02  # nats/character: what we take "no loss of quality" to mean


def _at(norm: str, batch_size: str) -> Where:
    return {"norm": norm, "batch_size": batch_size}


def _loss_growth(norm: str, weight: float) -> tuple[Term, Term]:
    """How much worse a norm validates at the smallest batch than at the largest."""
    return (
        Term(measure="validation_loss", where=_at(norm, "smallest"), weight=weight),
        Term(measure="validation_loss", where=_at(norm, "largest"), weight=-weight),
    )


RECIPE = Recipe(
    name="ln-vs-bn",
    title="LayerNorm against BatchNorm in a Transformer",
    question="Does BatchNorm fail in a Transformer language model, and what part do padding, "
    "batch size and running statistics have in it?",
    task=TaskSpec(shape="lines", length=128, validation_sequences=128),
    model=ModelSpec(width=128, heads=4),
    training=TrainingSpec(steps=300, interval=50, warmup_steps=20, clip_norm=1.0),
    grid=Grid(
        norm=("layer_norm", "batch_norm", "masked_batch_norm", "rms_norm", "no_norm"),
        placement=("pre",),
        depth=(2,),
        batch_size=(32, 4, 2),
        lr=(1e-3,),
    ),
    claims=(
        Claim(
            statement="Replacing LayerNorm by BatchNorm in a Transformer makes training collapse",
            source=ARTICLES,
            quantity="validation loss of BatchNorm minus that of LayerNorm, largest batch",
            terms=difference(
                "validation_loss", _at("batch_norm", "largest"), _at("layer_norm", "largest")
            ),
            relation="above",
            threshold=COLLAPSE,
        ),
        Claim(
            statement="BatchNorm validates worse than LayerNorm",
            source=SHEN,
            quantity="validation loss of BatchNorm minus that of LayerNorm, largest batch",
            terms=difference(
                "validation_loss", _at("batch_norm", "largest"), _at("layer_norm", "largest")
            ),
            relation="above",
        ),
        Claim(
            statement="A smaller batch hurts BatchNorm more than LayerNorm",
            source="Wu and He 2018, arXiv:1803.08494 (in vision); " + ARTICLES,
            quantity="growth of the validation loss from the largest to the smallest batch, "
            "BatchNorm minus LayerNorm",
            terms=_loss_growth("batch_norm", 1.0) + _loss_growth("layer_norm", -1.0),
            relation="above",
        ),
        Claim(
            statement="BatchNorm's training loss swings more from step to step",
            source=ARTICLES,
            quantity="step-to-step spread of BatchNorm minus that of LayerNorm, largest batch",
            terms=difference(
                "step_spread", _at("batch_norm", "largest"), _at("layer_norm", "largest")
            ),
            relation="above",
        ),
        Claim(
            statement="Padding pollutes BatchNorm: leaving pads out of its statistics helps",
            source=ARTICLES,
            quantity="validation loss of masked BatchNorm minus that of BatchNorm, largest batch",
            terms=difference(
                "validation_loss", _at("masked_batch_norm", "largest"), _at("batch_norm", "largest")
            ),
            relation="below",
        ),
        Claim(
            statement="BatchNorm validates worse with running statistics than with the batch's",
            source=SHEN,
            quantity="validation loss of BatchNorm with running minus with batch statistics, "
            "largest batch",
            terms=(
                Term(measure="validation_loss", where=_at("batch_norm", "largest")),
                Term(
                    measure="validation_batch_loss",
                    where=_at("batch_norm", "largest"),
                    weight=-1.0,
                ),
            ),
            relation="above",
        ),
        Claim(
            statement="RMSNorm loses nothing against LayerNorm",
            source="Zhang and Sennrich 2019, arXiv:1910.07467",
            quantity="validation loss of RMSNorm minus that of LayerNorm, largest batch",
            terms=difference(
                "validation_loss", _at("rms_norm", "largest"), _at("layer_norm", "largest")
            ),
            relation="below",
            threshold=SAME,
        ),
        Claim(
            statement="LayerNorm trains better than no norm at all",
            source="Ba et al. 2016, arXiv:1607.06450",
            quantity="validation loss of LayerNorm minus that of no norm, largest batch",
            terms=difference(
                "validation_loss", _at("layer_norm", "largest"), _at("no_norm", "largest")
            ),
            relation="below",
        ),
    ),
    charts=(
        AxisChart(
            measure="validation_loss",
            axis="batch_size",
            title="Final validation loss against batch size",
            caption="All batch sizes take the same number of steps, so a small batch sees less "
            "text: only the distance between norms says something about the norm.",
        ),
        AxisChart(
            measure="validation_batch_loss",
            axis="batch_size",
            title="The same with batch statistics",
            caption="Only norms that share statistics over the batch have this.",
        ),
        AxisChart(
            measure="step_spread",
            axis="batch_size",
            title="Step-to-step spread of the training loss",
        ),
    ),
    notes=(
        "Batch statistics are taken over time too, so in training (and in validation with batch "
        "statistics) a position's norm has seen the characters that it is to predict: they leak "
        "the future in a causal language model. The training loss of BatchNorm, masked or not, is "
        "therefore not comparable with that of the others. Validation with running statistics "
        "does not leak.",
        "BatchNorm here is the naive one: pads count as samples. Masked BatchNorm leaves them out.",
        "Lines of varying length are padded to the longest of their batch; pads are never read by "
        "attention and never in the loss.",
    ),
)
