"""Bugs in the ops that add a residual and normalise the sum, with dropout and without."""

from __future__ import annotations

from functools import partial

from tests.mutants.mutant import Mutant
from tests.mutants.selections import norm

_PHILOX_TESTS = "tests/reference/test_philox.py"
_philox = partial(Mutant, file="reference/philox.py")
_sum = partial(Mutant, file="reference/residual_sum.py")
_op = partial(Mutant, file="ops/add_norm.py")
_functional = partial(Mutant, file="functional/residual.py")

MUTANTS: tuple[Mutant, ...] = (
    _op(
        id="residual-gradient-through-the-norm",
        family="residual gradient through the norm",
        tests=norm("add_norm_derivatives", "the_gradient_of_the_sum_goes_around_the_norm"),
        old="= self.normaliser.rows_backward(dy_MN, h_MN, weight, bias)\n",
        new=(
            "= self.normaliser.rows_backward(\n"
            "            dy_MN if dh_MN is None else dy_MN + dh_MN, h_MN, weight, bias\n"
            "        )\n"
            "        dh_MN = None\n"
        ),
    ),
    _sum(
        id="alpha-forgotten-in-backward",
        family="alpha forgotten in backward",
        tests=norm("add_norm_derivatives", "the_gradient_of_the_sum_goes_around_the_norm"),
        old="dh if alpha == 1 else alpha * dh",
        new="dh",
    ),
    _sum(
        id="alpha-on-the-branch",
        family="alpha on the wrong term",
        tests=norm(
            "add_norm", "within_the_bound_in_every_regime[add_rms_norm-torch-torch.float32-unit]"
        ),
        old="(x if factor is None else x * factor) + alpha * residual",
        new="alpha * (x if factor is None else x * factor) + residual",
    ),
    _sum(
        id="dropout-forgotten-in-backward",
        family="dropout mask differing",
        tests=norm("add_norm", "the_gradient_is_dropped_where_x_was"),
        old="    return dh if factor is None else dh * factor, ",
        new="    return dh, ",
    ),
    _op(
        id="another-mask-in-backward",
        family="dropout mask differing",
        tests=norm("add_norm", "the_gradient_is_dropped_where_x_was"),
        old="            factor = self._factor(seed, piece, total)\n",
        new="            factor = self._factor(None if seed is None else seed + 1, piece, total)\n",
    ),
    _op(
        id="mask-begins-again-with-each-piece",
        family="int32 offset",
        tests=norm("add_norm", "more_rows_than_are_worked_through_at_once"),
        old="        first = piece.start * like.shape[-1]\n",
        new="        first = 0\n",
    ),
    _philox(
        id="kept-elements-not-scaled",
        family="scale of dropout forgotten",
        tests=norm("add_norm", "the_mask_keeps_the_mean"),
        old="    return kept.to(dtype) * (1 / (1 - p) if p < 1 else 0.0)\n",
        new="    return kept.to(dtype)\n",
    ),
    _philox(
        id="dropped-kept-and-kept-dropped",
        family="mask inverted",
        tests=(f"{_PHILOX_TESTS}::test_how_many_are_kept",),
        old="    kept = words >= round(p * 2**32)\n",
        new="    kept = words < round(p * 2**32)\n",
    ),
    _philox(
        id="philox-of-seven-rounds",
        family="random numbers wrong",
        tests=(f"{_PHILOX_TESTS}::test_known_answers",),
        old="_ROUNDS = 10\n",
        new="_ROUNDS = 7\n",
    ),
    _philox(
        id="philox-product-with-its-sign",
        family="random numbers wrong",
        tests=(f"{_PHILOX_TESTS}::test_known_answers",),
        old="    return (product >> 32) & _WORD, ",
        new="    return product >> 32, ",
    ),
    _philox(
        id="upper-half-of-the-seed-ignored",
        family="random numbers wrong",
        tests=(f"{_PHILOX_TESTS}::test_masks_of_other_seeds_and_places_are_independent",),
        old="(key & _WORD, (key >> 32) & _WORD)",
        new="(key & _WORD, key & 0)",
    ),
    _op(
        id="norm-of-the-sum-before-it-is-rounded",
        family="rounding order swapped",
        tests=norm("add_norm", "y_is_the_norm_of_h_as_it_is_returned"),
        old=(
            "piece, seed).to(dtype)\n"
            "            yield piece, norm.rows_forward(h_MN, weight, bias).to(x.dtype), h_MN\n"
        ),
        new=(
            "piece, seed)\n"
            "            yield (\n"
            "                piece,\n"
            "                norm.rows_forward(h_MN, weight, bias).to(x.dtype),\n"
            "                h_MN.to(dtype),\n"
            "            )\n"
        ),
    ),
    _op(
        id="stream-in-the-dtype-of-x",
        family="output dtype wrong",
        tests=norm("add_norm", "a_float32_stream_beside_half_branches"),
        old="    return torch.promote_types(x.dtype, residual.dtype)\n",
        new="    return x.dtype\n",
    ),
    _op(
        id="sum-that-overflows-on-the-way",
        family="row not scaled into range",
        tests=norm("add_norm", "a_term_that_overflows_does_not_make_the_sum_infinite"),
        old="        return torch.where(h.isfinite(), h, again)\n",
        new="        return h\n",
    ),
    _op(
        id="x-kept-for-backward",
        family="more kept than needed",
        tests=norm("add_norm", "for_the_backward_pass_the_sum_alone_is_kept"),
        old="        return like_x, h, *tensors[2:]\n",
        new="        return x, h, *tensors[2:]\n",
    ),
    Mutant(
        id="a-view-saved-and-not-the-output",
        file="ops/formula.py",
        family="second derivative cut off",
        tests=norm("add_norm_derivatives", "second_derivatives_see_both_outputs"),
        old="        ctx.save_for_backward(*formula.saved(tensors, results))\n",
        new="        ctx.save_for_backward(*formula.saved(tensors, found))\n",
    ),
    _op(
        id="residual-overwritten-before-x-is-read",
        family="memory overlap",
        tests=norm("add_norm", "in_place_where_x_lies_in_the_same_memory"),
        old="    return residual.is_contiguous() and (apart or same)\n",
        new="    return residual.is_contiguous()\n",
    ),
    _op(
        id="incoming-gradient-returned",
        family="dy overwritten",
        tests=norm("add_norm_graphs", "one_output_alone_in_a_compiled_graph"),
        old="dh_MN.to(compute_dtype(h_MN), copy=True)",
        new="dh_MN.to(compute_dtype(h_MN))",
    ),
    _functional(
        id="in-place-although-a-gradient-is-wanted",
        family="check forgotten",
        tests=norm("add_norm_derivatives", "wrong_input_gets_a_sentence"),
        old="    if torch.is_grad_enabled() and any(",
        new="    if not torch.is_grad_enabled() and any(",
    ),
    _functional(
        id="dropout-in-evaluation",
        family="option ignored",
        tests=norm("add_norm", "without_dropout_it_is_the_op_without"),
        old="    if not training or p == 0:\n",
        new="    if p == 0:\n",
    ),
    Mutant(
        id="added-rms-norm-rounds-once-always",
        file="ops/add_rms_norm.py",
        family="option ignored",
        tests=norm("add_norm", "options_arrive"),
        old='self.rounding, "input", None',
        new='"once", "input", None',
    ),
    Mutant(
        id="default-eps-of-x-and-not-of-the-sum",
        file="functional/add_rms_norm.py",
        family="eps of the wrong value",
        tests=norm("add_norm", "eps_of_none_is_that_of_the_sum"),
        old=(
            "    eps = default_eps(sum_dtype(x, residual)) if eps is None else float(eps)\n"
            "    how = (len(shape), eps, eps_place, zero_centred, float(alpha), rounding)\n"
            "    formula = "
        ),
        new=(
            "    eps = default_eps(x.dtype) if eps is None else float(eps)\n"
            "    how = (len(shape), eps, eps_place, zero_centred, float(alpha), rounding)\n"
            "    formula = "
        ),
    ),
)
