"""Measuring tools: error bound, ulp, float64 noise, saved bytes, time, state snapshot."""

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
from normkit.measure.time import Clock, Rounds, Timing, time_interleaved
from normkit.measure.time_load import Load, Moment, load, moment
from normkit.measure.time_ratio import Ratio, time_ratio
from normkit.measure.ulp import absolute_error, ulp, ulp_error, unit_roundoff

__all__ = [
    "Clock",
    "Load",
    "Margin",
    "Moment",
    "Ratio",
    "Rounds",
    "SavedBytes",
    "Snapshot",
    "Timing",
    "absolute_error",
    "assert_within",
    "error_bound",
    "float64_noise",
    "gain_gradient_scale",
    "growth",
    "input_gradient_scale",
    "load",
    "margin",
    "moment",
    "output_scale",
    "saved_bytes",
    "sum_scale",
    "time_interleaved",
    "time_ratio",
    "ulp",
    "ulp_error",
    "unit_roundoff",
]
