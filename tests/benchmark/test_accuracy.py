"""Errors beside speed: what a wrong implementation would be charged with."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from normkit.benchmark import OPS
from normkit.benchmark.accuracy import ErrorRow, compare, errors, results, truth, worst
from normkit.benchmark.peers import PEERS, TORCH
from normkit.benchmark.peers.in_torch import FunctionPeer
from normkit.benchmark.regimes import LONG_ROW, MANY_ROWS, REGIMES, cases, small_shape
from normkit.benchmark.task import make_task

RMS = OPS["rms_norm"]
SHAPE = (8, 32)


def charged(function: object, *, dtype: torch.dtype = torch.float32) -> dict[str, ErrorRow]:
    """The worst rows of an RMSNorm, by regime."""
    peer = FunctionPeer("other", lambda op: function)  # type: ignore[arg-type, return-value]
    rows = errors(RMS, SHAPE, dtype, "forward", peer)
    return {row.regime: row for row in rows}


def test_every_regime_is_measured() -> None:
    """Those of the table, one long row, and many rows."""
    rows = charged(RMS.torch)
    assert rows.keys() == {*REGIMES, LONG_ROW, MANY_ROWS}
    assert {row.value for row in rows.values()} == {"y"}


def test_ours_is_right_in_every_regime() -> None:
    """Within a few ulps, and finite."""
    rows = charged(RMS.ours)
    assert max(row.worst_ulp for row in rows.values()) < 8
    assert sum(row.not_finite for row in rows.values()) == 0


def test_squares_that_overflow() -> None:
    """torch's chain gives 0 for huge values: about 2**24 ulps, all of them finite."""
    rows = charged(RMS.torch)
    assert rows["unit"].worst_ulp < 8
    assert rows["huge"].worst_ulp > 1e6
    assert rows["huge"].not_finite == 0


def test_nan_is_counted() -> None:
    """Also what divides by nothing."""
    rows = charged(lambda x, weight: RMS.formula(x, weight) + x.new_tensor(math.nan))
    assert rows["unit"].not_finite == 8 * 32
    assert rows["unit"].worst_ulp == math.inf


def test_a_wrong_eps_shows_where_values_are_tiny() -> None:
    """And nowhere else so much."""

    def other(x: Tensor, weight: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1.1e-6) * weight

    rows = charged(other)
    assert rows["tiny"].worst_ulp > 1e4 > 100 * rows["unit"].worst_ulp


def test_gradients_are_measured_too() -> None:
    """A backward that drops the projection is far off, and its forward is not."""

    def other(x: Tensor, weight: Tensor) -> Tensor:
        with torch.no_grad():
            inverse = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        return x * inverse * weight

    peer = FunctionPeer("other", lambda op: other)
    found = worst(
        [
            r
            for r in errors(RMS, SHAPE, torch.float32, "forward_backward", peer)
            if r.regime == "unit"
        ]
    )
    assert found["y"].worst_ulp < 8
    assert found["dweight"].worst_ulp < 32
    assert found["dx"].worst_ulp > 1e5


def test_the_truth_of_a_sum_is_the_rounded_sum() -> None:
    """The op returns h rounded, and normalises that."""
    op = OPS["add_rms_norm"]
    task = make_task(op, "forward_backward", (4, 16), torch.bfloat16)
    want = truth(task)
    h = task.inputs["x"] + task.inputs["residual"]
    assert torch.equal(want["h"], h.detach().double())
    assert torch.equal(want["dx"], want["dresidual"])
    bound = PEERS["formula"].bind(task)
    assert bound is not None
    broken = {name: compare(t, want[name], (-1,))[0] for name, t in results(task, bound).items()}
    assert broken["h"] == 0
    assert max(broken.values()) < 3


def test_scale_of_a_row() -> None:
    """An element near 0 is measured by the largest of its row, a parameter's by its tensor."""
    want = torch.tensor([[1.0, 1e-9], [1e-3, 0.0]], dtype=torch.float64)
    got = want.float()
    got[0, 1] += 2.0**-23
    assert compare(got, want, (-1,))[0] == pytest.approx(1.0)
    got = want.float()
    got[1, 1] += 2.0**-23
    assert compare(got, want, (-1,))[0] == pytest.approx(1024.0)  # one ulp at 1e-3 is 2**-33
    assert compare(got, want, None)[0] == pytest.approx(1.0)


def test_an_infinity_that_is_right_is_no_error() -> None:
    """What rounds to infinity in the dtype is met by infinity."""
    want = torch.tensor([[1e30, 1.0]], dtype=torch.float64)
    assert compare(torch.tensor([[math.inf, 1.0]], dtype=torch.float16), want, (-1,)) == (0.0, 0)
    assert compare(torch.tensor([[math.inf, math.nan]], dtype=torch.float16), want, None)[1] == 1


def test_worst_takes_nan_before_any_number() -> None:
    """The row with more values that are not finite."""

    def row(regime: str, ulp: float, broken: int) -> ErrorRow:
        return ErrorRow(
            op="o", implementation="i", mode="forward", dtype="float32", regime=regime, value="y",
            worst_ulp=ulp, not_finite=broken,
        )  # fmt: skip

    rows = [row("a", 3.0, 0), row("b", math.inf, 2), row("c", math.inf, 1)]
    assert worst(rows)["y"].regime == "b"
    assert worst(rows[:1])["y"].regime == "a"


def test_no_long_row_with_a_matrix() -> None:
    """A linear layer of 65536 by 65536 would take 16 GiB."""
    names = [name for name, _, _ in cases(OPS["norm_linear"], (4, 8))]
    assert LONG_ROW not in names
    assert MANY_ROWS in names


def test_small_shapes_stay_in_kind() -> None:
    """As many axes, the same width."""
    assert small_shape((1, 262144)) == (1, 262144)
    assert small_shape((2, 3, 64)) == (2, 3, 64)


@pytest.mark.parametrize("name", REGIMES)
def test_regimes_fit_their_dtype(name: str) -> None:
    """Finite in bfloat16 and float16, in every shape."""
    for dtype in (torch.bfloat16, torch.float16):
        x = REGIMES[name]((2, 3, 8), dtype, torch.Generator().manual_seed(0))
        assert x.shape == (2, 3, 8)
        assert x.to(dtype).isfinite().all()


def test_torch_is_measured_as_a_peer() -> None:
    """The names are those of the run."""
    rows = errors(RMS, SHAPE, torch.bfloat16, "forward", PEERS[TORCH])
    assert {(row.op, row.implementation, row.mode, row.dtype) for row in rows} == {
        ("rms_norm", "torch", "forward", "bfloat16")
    }
