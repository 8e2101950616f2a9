"""Bugs in the C++ sources of the adaptive norms and gated RMSNorm."""

from __future__ import annotations

from functools import partial

from tests.mutants.mutant import Mutant
from tests.mutants.selections import norm

_common = "kernels/cpu/common"
_compute = "kernels/cpu/compute"
_gate = partial(Mutant, file=f"{_common}/gate.h")
_gated = partial(Mutant, file=f"{_common}/gated.h")
_rows = partial(Mutant, file=f"{_compute}/gated.cpp")
_modulation = partial(Mutant, file=f"{_compute}/modulation.h")
_sums = partial(Mutant, file=f"{_compute}/parameter_sums.h")

_ADAPTIVE = norm("adaptive_kernel", "every_regime[torch.float32-unit-layer]")
_AFTER = norm("gated_kernel", "within_the_bound_in_every_regime[torch.float32-after]")
_BEFORE = norm("gated_kernel", "within_the_bound_in_every_regime[torch.float32-before]")

MUTANTS: tuple[Mutant, ...] = (
    _gate(
        id="kernel-exponential-with-few-digits",
        family="function approximated badly",
        tests=norm("gated_kernel", "the_exponential"),
        old="5.0000001201e-1f",
        new="5.0001001201e-1f",
    ),
    _gate(
        id="kernel-slope-of-silu-of-a-large-gate",
        family="derivative of the gate wrong",
        tests=norm("gated_kernel", "gates_of_any_size[silu]"),
        old="fma(near * rest, s, s)",
        new="fma(t * rest, s, s)",
    ),
    _gate(
        id="kernel-gate-below-float",
        family="underflow",
        tests=norm("gated_kernel", "a_gate_near_zero_beside_a_huge_number"),
        old="    if (ends[j] < -80) return false;\n",
        new="",
    ),
    _gated(
        id="kernel-gated-value-not-rounded-before-the-gate",
        family="rounding order swapped",
        tests=norm("gated_kernel", "rounding"),
        dtypes=("float16", "bfloat16", "float32"),
        old="  round_row(y, N, how.dtype);\n  multiply(y, a, y, N);\n",
        new="  multiply(y, a, y, N);\n",
    ),
    _gated(
        id="kernel-gate-forgotten-in-dweight",
        family="gate lost in backward",
        tests=_AFTER,
        old="    Vec<C> g = load<C>(d + i, n);\n    if (shares.gain",
        new="    Vec<C> g = load<C>(row.dy + i, n);\n    if (shares.gain",
    ),
    _gated(
        id="kernel-gate-forgotten-in-dx",
        family="gate lost in backward",
        tests=_BEFORE,
        old="before ? du * load<C>(memory.a + i, n) : du",
        new="du",
    ),
    _gated(
        id="kernel-bias-forgotten-in-dgate",
        family="bias ignored",
        tests=_AFTER,
        old="      if (by.bias != nullptr) from = from + load<C>(by.bias + i, n);\n",
        new="",
    ),
    _gated(
        id="kernel-product-of-huge-x-and-gate",
        family="overflow",
        tests=norm("gated_kernel", "a_product_beyond_float64"),
        dtypes=("float64",),
        old="shift = above > 0 ? above : 0;",
        new="shift = 0;",
    ),
    _rows(
        id="kernel-groups-ignored",
        family="wrong group",
        tests=norm("gated_kernel", "options_and_missing_parameters"),
        dtypes=("float32", "float64"),
        old="group.N = group.measured = norm.N / gating.groups;",
        new="group.N = group.measured = norm.N;",
    ),
    _modulation(
        id="kernel-first-scale-for-all",
        family="wrong group",
        tests=_ADAPTIVE,
        old="    if (wanted != group) fill(wanted, bias);\n",
        new="    if (group < 0) fill(wanted, bias);\n",
    ),
    _modulation(
        id="kernel-scale-without-one",
        family="zero-centred gain without 1",
        tests=_ADAPTIVE,
        old="norm.N, true, kCompute<C>, memory.data",
        new="norm.N, false, kCompute<C>, memory.data",
    ),
    _sums(
        id="kernel-dshift-is-dscale",
        family="wrong output",
        tests=_ADAPTIVE,
        old="write_row(sums + N, N, a, by.dshift",
        new="write_row(sums, N, a, by.dshift",
    ),
    _sums(
        id="kernel-first-rows-for-all-groups",
        family="wrong group",
        tests=norm("adaptive_kernel", "scale_and_shift_of_other_dtypes[rms]"),
        dtypes=("bfloat16", "float32", "float64", "float16"),
        old="in_order(a * rows, to",
        new="in_order(0, to",
    ),
)
