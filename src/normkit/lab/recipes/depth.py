"""How deep each placement trains without warm-up."""

from __future__ import annotations

from normkit.lab.config import ModelSpec, TrainingSpec
from normkit.lab.recipe import AxisChart, Claim, Grid, Recipe, Term
from normkit.lab.task import TaskSpec

XIONG = "Xiong et al. 2020, arXiv:2002.04745"
WANG = "Wang et al. 2022, arXiv:2203.00555"
LEARNS = -0.4  # nats below the unigram entropy: context is used
STUCK = -0.06  # nats below the unigram entropy: only the frequencies of characters are learned


def _against_unigram(placement: str, depth: int) -> tuple[Term, ...]:
    return (Term(measure="training_loss", where={"placement": placement, "depth": depth}),)


RECIPE = Recipe(
    name="depth",
    title="How deep does each placement train?",
    question="Which placement still trains at 48 layers, without warm-up, in 200 steps?",
    task=TaskSpec(shape="windows", length=32),
    model=ModelSpec(width=32, heads=4, ffn_width=64),
    training=TrainingSpec(steps=200, interval=20),
    grid=Grid(
        norm=("layer_norm",),
        placement=("post", "pre", "deepnorm"),
        depth=(2, 6, 12, 24, 48),
        batch_size=(16,),
        lr=(1e-3,),
    ),
    tail=20,
    rank_by="training_loss",
    claims=(
        Claim(
            statement="Post-norm does not train at 48 layers without warm-up",
            source=XIONG,
            quantity="training loss of Post-norm at 48 layers minus the unigram entropy",
            terms=_against_unigram("post", 48),
            minus="unigram",
            relation="above",
            threshold=STUCK,
        ),
        Claim(
            statement="Pre-norm trains at 48 layers without warm-up",
            source=XIONG,
            quantity="training loss of Pre-norm at 48 layers minus the unigram entropy",
            terms=_against_unigram("pre", 48),
            minus="unigram",
            relation="below",
            threshold=LEARNS,
        ),
        Claim(
            statement="DeepNorm trains at 48 layers, though it is a Post-norm",
            source=WANG,
            quantity="training loss of DeepNorm at 48 layers minus the unigram entropy",
            terms=_against_unigram("deepnorm", 48),
            minus="unigram",
            relation="below",
            threshold=LEARNS,
        ),
        Claim(
            statement="Post-norm trains at 2 layers: depth is what stops it",
            source=XIONG,
            quantity="training loss of Post-norm at 2 layers minus the unigram entropy",
            terms=_against_unigram("post", 2),
            minus="unigram",
            relation="below",
            threshold=LEARNS,
        ),
    ),
    charts=(
        AxisChart(
            measure="training_loss",
            axis="depth",
            title="Final training loss against depth",
            caption="A model that only learns how often each character comes stays at the "
            "unigram entropy.",
        ),
    ),
    notes=(
        "Adam at a constant learning rate of 0.001 without warm-up or weight decay, 200 steps: "
        "the setting in which placements differ most. The final training loss is the mean over "
        "the last 20 steps.",
    ),
)
