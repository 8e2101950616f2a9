"""ulp and unit_roundoff against the neighbouring numbers themselves."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from normkit.errors import DtypeError, ShapeError
from normkit.measure import absolute_error, ulp, ulp_error, unit_roundoff

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
HALF_GAP = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
}
SMALLEST = {
    torch.float64: 2.0**-1074,
    torch.float32: 2.0**-149,
    torch.float16: 2.0**-24,
    torch.bfloat16: 2.0**-133,
}


def truth(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def finite(dtype: torch.dtype) -> st.SearchStrategy[float]:
    largest = torch.finfo(dtype).max
    return st.floats(-largest, largest, allow_nan=False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_unit_roundoff_is_half_the_gap_above_one(dtype: torch.dtype) -> None:
    assert unit_roundoff(dtype) == HALF_GAP[dtype]
    assert ulp(truth(1.0), dtype).item() == 2 * HALF_GAP[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_ulp_is_the_gap_to_the_next_number(dtype: torch.dtype, data: st.DataObject) -> None:
    value = truth(data.draw(finite(dtype))).to(dtype).abs()
    following = torch.nextafter(value, torch.full_like(value, torch.inf))
    if not following.isfinite().item():
        following, value = value, torch.nextafter(value, torch.zeros_like(value))
    gap = following.double() - value.double()
    assert torch.equal(ulp(value.double(), dtype), gap)
    assert torch.equal(ulp(-value.double(), dtype), gap)


@pytest.mark.parametrize("dtype", DTYPES)
def test_ulp_at_zero_and_among_subnormals_is_the_smallest_number(dtype: torch.dtype) -> None:
    smallest, tiny = SMALLEST[dtype], torch.finfo(dtype).tiny
    values = truth(0.0, smallest, -3 * smallest, tiny, 1.5 * tiny)
    assert ulp(values, dtype).tolist() == [smallest] * 5
    assert ulp(truth(2 * tiny), dtype).item() == 2 * smallest


@pytest.mark.parametrize("dtype", DTYPES)
def test_ulp_stays_at_the_last_gap_beyond_the_largest_number(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    last = truth(largest).to(dtype)
    gap = last.double() - torch.nextafter(last, torch.zeros_like(last)).double()
    beyond = truth(largest, math.inf, -math.inf)
    assert ulp(beyond, dtype).tolist() == [gap.item()] * 3
    if dtype != torch.float64:
        assert ulp(truth(largest * 1e10), dtype).item() == gap.item()


def test_ulp_of_nan_is_nan() -> None:
    assert ulp(truth(math.nan), torch.float32).isnan().item()


@given(value=st.floats(allow_nan=False))
def test_ulp_of_float64_is_what_python_says(value: float) -> None:
    wanted = math.ulp(value) if math.isfinite(value) else math.ulp(torch.finfo(torch.float64).max)
    assert ulp(truth(value), torch.float64).item() == wanted


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@given(data=st.data())
def test_rounding_costs_at_most_half_an_ulp(dtype: torch.dtype, data: st.DataObject) -> None:
    value = truth(data.draw(finite(dtype)))
    assert ulp_error(value.to(dtype), value).item() <= 0.5


def test_ulp_error_counts_gaps_of_the_results_dtype() -> None:
    y = torch.tensor([1.0, 1.0], dtype=torch.bfloat16)
    assert ulp_error(y, truth(1.0, 1.0 + 3 * 2.0**-7)).tolist() == [0.0, 3.0]


def test_ulp_error_reads_strided_and_scalar_tensors() -> None:
    y = torch.arange(6.0).reshape(2, 3).t()
    assert ulp_error(y, y.double()).eq(0).all()
    assert ulp_error(torch.tensor(1.0), torch.tensor(1.0).double()).item() == 0


@pytest.mark.parametrize("got", [math.nan, math.inf, -math.inf])
def test_a_result_that_is_not_finite_where_the_truth_is_counts_as_inf(got: float) -> None:
    assert ulp_error(torch.tensor([got]), truth(1.0)).item() == math.inf


@pytest.mark.parametrize(
    ("ref", "got", "error"),
    [
        (math.nan, math.nan, 0.0),
        (math.nan, 1.0, math.inf),
        (math.inf, math.inf, 0.0),
        (math.inf, -math.inf, math.inf),
        (math.inf, 1.0, math.inf),
        (1e39, math.inf, 0.0),  # too large for float32: infinity is the correct rounding
        (1e39, -math.inf, math.inf),
    ],
)
def test_a_truth_that_is_not_finite_in_the_dtype_is_met_by_itself_alone(
    ref: float, got: float, error: float
) -> None:
    assert absolute_error(torch.tensor([got]), truth(ref)).item() == error


def test_wrong_dtypes_and_shapes_get_a_sentence() -> None:
    with pytest.raises(DtypeError) as caught:
        ulp_error(torch.ones(2), torch.ones(2))
    assert str(caught.value) == (
        "absolute_error: ref64 must be float64; ref64 is torch.float32. "
        "Compute the truth in float64; ref64.double() only widens what was rounded."
    )
    with pytest.raises(DtypeError) as caught:
        unit_roundoff(torch.int64)
    assert str(caught.value) == "unit_roundoff: the dtype must be floating; it is torch.int64."
    with pytest.raises(ShapeError) as caught:
        ulp_error(torch.ones(2), torch.ones(3).double())
    assert str(caught.value) == (
        "absolute_error: y and ref64 must have one shape; y is (2,), ref64 is (3,)."
    )
