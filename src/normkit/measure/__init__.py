"""Measuring tools: error bound, ulp, float64 noise, saved bytes, state snapshot."""

from normkit.measure.bound import (
    error_bound,
    gain_gradient_scale,
    growth,
    input_gradient_scale,
    output_scale,
    sum_scale,
)
from normkit.measure.margin import Margin, assert_within, margin
from normkit.measure.noise import float64_noise
from normkit.measure.saved import SavedBytes, saved_bytes
from normkit.measure.snapshot import Snapshot
from normkit.measure.ulp import absolute_error, ulp, ulp_error, unit_roundoff

__all__ = [
    "Margin",
    "SavedBytes",
    "Snapshot",
    "absolute_error",
    "assert_within",
    "error_bound",
    "float64_noise",
    "gain_gradient_scale",
    "growth",
    "input_gradient_scale",
    "margin",
    "output_scale",
    "saved_bytes",
    "sum_scale",
    "ulp",
    "ulp_error",
    "unit_roundoff",
]
