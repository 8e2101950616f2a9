"""The lab: train small models on real text, and judge claims about norms by what comes out.

:func:`compare` is the door; everything else is what it is made of.
"""

from __future__ import annotations

from normkit.lab.compare import compare
from normkit.lab.config import ModelSpec, RunConfig, TrainingSpec
from normkit.lab.judge import RunSummary, Verdict, judge
from normkit.lab.recipe import AxisChart, Claim, Grid, Recipe, Term, difference
from normkit.lab.recipes import RECIPES
from normkit.lab.result import Comparison
from normkit.lab.task import TaskSpec, TextTask
from normkit.lab.text import Text, load_text
from normkit.lab.verdict import Interval, decide, paired_interval, seeds_to_decide

__all__ = [
    "RECIPES",
    "AxisChart",
    "Claim",
    "Comparison",
    "Grid",
    "Interval",
    "ModelSpec",
    "Recipe",
    "RunConfig",
    "RunSummary",
    "TaskSpec",
    "Term",
    "Text",
    "TextTask",
    "TrainingSpec",
    "Verdict",
    "compare",
    "decide",
    "difference",
    "judge",
    "load_text",
    "paired_interval",
    "seeds_to_decide",
]
