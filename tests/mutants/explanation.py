"""Bugs in what is explained: formulas, sharing, cost, behaviour, placements."""

from __future__ import annotations

from functools import partial

from tests.mutants.mutant import Mutant

_TESTS = "tests/explanation"
_SHARING = f"{_TESTS}/test_sharing.py"
_LINES = f"{_TESTS}/test_formula.py::test_lines_are_the_layer"
_SPEC = f"{_TESTS}/test_formula.py::test_options_of_a_spec"

_formula = partial(Mutant, file="explanation/formula.py")
_sharing = partial(Mutant, file="explanation/sharing.py")
_placement = partial(Mutant, file="explanation/placement.py")

MUTANTS: tuple[Mutant, ...] = (
    _formula(
        id="explained-eps-outside",
        family="eps outside instead of inside",
        tests=(f"{_LINES}[True-layer_norm]",),
        old='return f"sqrt({square} + {s.eps})"',
        new='return f"(sqrt({square}) + {s.eps})"',
    ),
    _formula(
        id="explained-projection-dropped",
        family="projection term dropped",
        tests=(f"{_LINES}[False-rms_norm]",),
        old=" - x_hat{measured}{k} * sum(g * x_hat){share})",
        new=")",
    ),
    _formula(
        id="explained-clamp-without-its-switch",
        family="projection term dropped",
        tests=(f"{_SPEC}[rms clamp]",),
        old='f"{divisor} / {root}" if spec.eps_place == "outside" else f"{root} >= {s.eps}"',
        new='f"{divisor} / {root}"',
    ),
    _formula(
        id="explained-running-variance-biased",
        family="running variance biased",
        tests=(f"{_TESTS}/test_formula.py::test_running_lines[batch_norm]",),
        old="more = s.unbiased if spec.stats.unbiased_running else",
        new="more = s.unbiased if not spec.stats.unbiased_running else",
    ),
    _sharing(
        id="explained-groups-interleaved",
        family="groups interleaved",
        tests=(f"{_SHARING}::test_labels_are_what_the_layer_does",),
        old="index, sizes = index // (one.size // reading.groups), reading.groups",
        new="index, sizes = index % reading.groups, reading.groups",
    ),
    _sharing(
        id="explained-space-not-shared",
        family="wrong axes",
        tests=(f"{_SHARING}::test_labels_are_what_the_layer_does",),
        old="found |= set(reading.places)",
        new="found |= set(reading.places[:1])",
    ),
    _sharing(
        id="explained-group-size",
        family="count wrong",
        tests=(f"{_TESTS}/test_norm.py::test_side_by_side_options",),
        old="        size //= reading.groups\n",
        new="        pass\n",
    ),
    Mutant(
        id="explained-batch-reads-once",
        family="cost wrong",
        file="explanation/cost.py",
        tests=(f"{_TESTS}/test_norm.py::test_cost",),
        old='return spec.stats.train == "batch" or sharing.couples_batch',
        new="return sharing.couples_batch and not spec.stats.momentum",
    ),
    Mutant(
        id="explained-evaluation-leaks",
        family="train and eval confused",
        file="explanation/behaviour.py",
        tests=(f"{_TESTS}/test_norm.py::test_causal_answer_is_measured",),
        old="    if f.stateful:\n        where =",
        new="    if not f.stateful:\n        where =",
    ),
    _placement(
        id="explained-inner-norms-not-counted",
        family="count wrong",
        tests=(f"{_TESTS}/test_placement.py::test_norms_are_counted",),
        old="spec.norm_sum, spec.norm_inside)\n    return",
        new="spec.norm_sum)\n    return",
    ),
    _placement(
        id="explained-scale-on-the-skip",
        family="alpha forgotten",
        tests=(f"{_TESTS}/test_placement.py::test_formula",),
        old='    x = f"{skip} * x" if skip else "x"\n',
        new='    x = "x"\n',
    ),
    Mutant(
        id="explained-growth-of-norms-out",
        family="growth wrong",
        file="explanation/growth.py",
        tests=(f"{_TESTS}/test_placement.py::test_told_growth_is_measured",),
        old="total = 1 + depth * sum(known) * weight",
        new="total = 1 + depth * weight",
    ),
    Mutant(
        id="explained-data-looks-back",
        family="wrong data",
        file="explanation/data.py",
        tests=(f"{_TESTS}/test_worked.py::test_features_are_counts",),
        old="        if back:\n",
        new="        if not back:\n",
    ),
    Mutant(
        id="explained-example-moves-the-generator",
        family="state changed",
        file="explanation/worked.py",
        tests=(f"{_TESTS}/test_worked.py::test_nothing_else_changes",),
        old="with torch.random.fork_rng(devices=[]), torch.no_grad():",
        new="with torch.no_grad():",
    ),
)
