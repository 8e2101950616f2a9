"""Bugs in PowerNorm (its recursion, its backward statistic, its passes) and in the mask context."""

from __future__ import annotations

from functools import partial

from tests.mutants.mutant import Mutant
from tests.mutants.selections import norm

_formula = partial(Mutant, file="reference/power_norm.py")
_op = partial(Mutant, file="ops/power_norm.py")
_passes = partial(Mutant, file="ops/power_passes.py")
_functional = partial(Mutant, file="functional/power_norm.py")
_valid = partial(Mutant, file="layers/valid.py")

_RECURSION = norm("power_norm", "the_recursion_of_the_paper_over_20_steps")
_WARM = norm("power_norm", "the_first_passes_have_the_gradient_of_batch_statistics")
_CHECKPOINT = norm("power_norm_passes", "checkpointing_equals_plain")


def _context(test: str) -> tuple[str, ...]:
    return (f"tests/layers/test_valid.py::test_{test}",)


MUTANTS: tuple[Mutant, ...] = (
    _formula(
        id="power-norm-eps-ignored",
        family="eps ignored",
        tests=_WARM,
        old="(power_square(x_CR, n) + eps).sqrt()",
        new="power_square(x_CR, n).sqrt()",
    ),
    _op(
        id="power-norm-eps-outside",
        family="eps outside instead of inside",
        tests=_RECURSION,
        old="    psi = (square_C.to(rows.x_MN.dtype) + eps).sqrt()[:, None]\n",
        new="    psi = (square_C.to(rows.x_MN.dtype).sqrt() + eps)[:, None]\n",
    ),
    _formula(
        id="power-norm-exact-gradient-lost",
        family="projection term dropped",
        tests=_WARM,
        old="    pull = torch.where(own, product, product_C1)\n",
        new="    pull = product_C1\n",
    ),
    _formula(
        id="power-norm-running-product-unused",
        family="projection term dropped",
        tests=_RECURSION,
        old="    dx = (g - x_hat * pull) / psi_C1\n",
        new="    dx = (g - x_hat * torch.where(own, pull, 0)) / psi_C1\n",
    ),
    _formula(
        id="power-norm-gain-lost-in-backward",
        family="gain lost in backward",
        tests=_RECURSION,
        old="    g = dy_CR if weight_C is None else dy_CR * weight_C[:, None]\n",
        new="    g = dy_CR\n",
    ),
    _formula(
        id="power-norm-gamma-forgotten",
        family="running statistic wrong",
        tests=_RECURSION,
        old="old_C * (1 - momentum * gamma_C)",
        new="old_C * (1 - momentum)",
    ),
    _op(
        id="power-norm-product-over-all-positions",
        family="mask ignored in backward",
        tests=_RECURSION,
        old="            n=_divisible(n, rows),\n            own=step < self.warmup,\n        )\n",
        new=(
            "            n=_divisible(_positions(x, self.channel_axis, None), rows),\n"
            "            own=step < self.warmup,\n        )\n"
        ),
    ),
    _op(
        id="power-norm-square-over-all-positions",
        family="mask ignored in statistics",
        tests=_RECURSION,
        old="reference.power_square(rows.x_MN, _divisible(n, rows)).squeeze(-1)",
        new=(
            "reference.power_square(\n            rows.x_MN, "
            "_divisible(_positions(x, self.channel_axis, None), rows)\n        ).squeeze(-1)"
        ),
    ),
    _op(
        id="power-norm-pads-keep-the-bias",
        family="mask ignored in the output",
        tests=_RECURSION,
        old="        y_CR = y_CR if valid_R is None else torch.where(valid_R, y_CR, 0)\n",
        new="",
    ),
    _op(
        id="power-norm-groups-of-one-channel",
        family="wrong group",
        tests=norm("power_norm", "group_scaling_is_a_step_before_with_an_exact_gradient"),
        old="last.shape[-1] // (self.groups or 1)",
        new="(self.groups or 1)",
    ),
    _op(
        id="power-norm-group-scaling-not-differentiated",
        family="projection term dropped",
        tests=norm("power_norm", "group_scaling_is_a_step_before_with_an_exact_gradient"),
        old="        dx, _ = standardize_backward(g_MN, rows.x_MN, center=False, eps=rows.eps)\n",
        new="        dx = g_MN\n",
    ),
    _op(
        id="power-norm-statistics-of-the-recomputation",
        family="running statistic of another pass",
        tests=_CHECKPOINT,
        old="        return (*tensors[:3], *results[3:], *tensors[6:])\n",
        new="        return tensors\n",
    ),
    _op(
        id="power-norm-recomputation-moves-again",
        family="running statistic moved twice",
        tests=_CHECKPOINT,
        old="        n = n if new else torch.zeros_like(n)\n",
        new="",
    ),
    _passes(
        id="power-norm-second-backward-moves-again",
        family="running statistic moved twice",
        tests=norm("power_norm_passes", "a_second_backward_gives_the_same_and_moves_nothing"),
        old="        wanted = (self._applied != step).all() & new.isfinite()\n",
        new="        wanted = new.isfinite()\n",
    ),
    _passes(
        id="power-norm-infinite-product-kept",
        family="value that is not finite kept",
        tests=norm("power_norm", "values_that_are_not_finite_leave_their_channels"),
        old="(self._applied != step).all() & new.isfinite()",
        new="(self._applied != step).all()",
    ),
    _functional(
        id="power-norm-mean-of-the-first-passes-biased",
        family="running statistic biased",
        tests=_WARM,
        old="1 / (step + 1).to(batch.dtype)",
        new="1 / (step + 2).to(batch.dtype)",
    ),
    _functional(
        id="power-norm-momentum-swapped",
        family="momentum swapped",
        tests=_RECURSION,
        old="1 / (step + 1).to(batch.dtype), momentum)",
        new="1 / (step + 1).to(batch.dtype), 1 - momentum)",
    ),
    _functional(
        id="power-norm-backward-momentum-ignored",
        family="option ignored",
        tests=_RECURSION,
        old="groups, float(backward_momentum), warmup,",
        new="groups, float(momentum), warmup,",
    ),
    _valid(
        id="valid-context-wins-over-the-argument",
        family="mask of another place",
        tests=_context("nested_blocks_and_the_argument"),
        old="    if valid is not None:\n        return valid\n    frame = _INNERMOST.frame\n",
        new=(
            "    frame = _INNERMOST.frame\n"
            "    if valid is not None and frame is None:\n        return valid\n"
        ),
    ),
    _valid(
        id="valid-shared-by-threads",
        family="mask of another place",
        tests=_context("another_thread_sees_its_own"),
        old="class _Innermost(threading.local):",
        new="class _Innermost:",
    ),
    _valid(
        id="valid-default-in-the-class",
        family="stale guard of a graph",
        tests=_context("compiled_with_the_block_outside"),
        old=(
            "    def __init__(self) -> None:\n"
            "        self.frame: _Frame | None = None  # runs in each thread that looks\n"
        ),
        new="    frame: _Frame | None = None\n",
    ),
    _valid(
        id="valid-lost-in-a-recomputation",
        family="mask ignored in backward",
        tests=_context("a_recomputation_without_its_mask_is_refused"),
        old='if frame is None and getattr(layer, "_masked_by_context", False):',
        new="if False:",
    ),
    _valid(
        id="valid-outer-block-taken-away",
        family="mask of another place",
        tests=_context("a_generator_that_ends_late_takes_away_its_own"),
        old="        _set(_without(_INNERMOST.frame, self))\n",
        new="        _set(_INNERMOST.frame.outer if _INNERMOST.frame else None)\n",
    ),
)
