"""Saved bytes against ops whose savings are known."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normkit.measure import SavedBytes, saved_bytes

ROWS, WIDTH = 8, 16
SIZE = ROWS * WIDTH * 4


def x32() -> Tensor:
    return torch.randn(ROWS, WIDTH, requires_grad=True)


def test_layer_norm_keeps_its_input_its_gain_and_two_numbers_a_row() -> None:
    weight, bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))
    found = saved_bytes(F.layer_norm, x32(), (WIDTH,), weight, bias)
    # torch keeps the bias as well, though its backward does not need it.
    assert found == SavedBytes(inputs=SIZE, parameters=2 * WIDTH * 4, new=2 * ROWS * 4)
    assert found.total == SIZE + 2 * WIDTH * 4 + 2 * ROWS * 4


def test_a_modules_parameters_and_buffers_count_as_parameters() -> None:
    norm = nn.LayerNorm(WIDTH)
    assert saved_bytes(norm, x32()).parameters == 2 * WIDTH * 4
    batch_norm = nn.BatchNorm1d(WIDTH).eval()
    assert saved_bytes(batch_norm, x32()).parameters == 3 * WIDTH * 4  # weight and two statistics


def test_rms_norm_in_bf16_keeps_four_input_sizes_on_the_cpu() -> None:
    x = torch.randn(64, 256).bfloat16().requires_grad_()
    weight = nn.Parameter(torch.ones(256).bfloat16())
    found = saved_bytes(F.rms_norm, x, (256,), weight, 1e-6)
    assert 3.9 < found.total / (64 * 256 * 2) < 4.1


def test_relu_and_dropout_keep_one_tensor_that_they_made() -> None:
    assert saved_bytes(F.relu, x32()) == SavedBytes(inputs=0, parameters=0, new=SIZE)
    assert saved_bytes(lambda t: F.dropout(t, 0.5), x32()) == SavedBytes(
        inputs=0, parameters=0, new=SIZE
    )


def test_views_of_one_storage_count_once_and_whole() -> None:
    assert saved_bytes(lambda t: t[:, :2] * t[:, 2:4], x32()).inputs == SIZE
    assert saved_bytes(lambda t: (t * t) * (t * t), x32()) == SavedBytes(
        inputs=SIZE, parameters=0, new=2 * SIZE
    )


def test_a_view_saved_by_the_op_counts_as_the_input_that_it_views() -> None:
    assert saved_bytes(lambda t: t.reshape(-1).sin(), x32()) == SavedBytes(
        inputs=SIZE, parameters=0, new=0
    )


def test_nothing_is_kept_where_nothing_needs_a_gradient() -> None:
    nothing = SavedBytes(inputs=0, parameters=0, new=0)
    assert saved_bytes(torch.exp, x32().detach()) == nothing
    assert saved_bytes(lambda t: t * 2, x32()) == nothing
    with torch.no_grad():
        assert saved_bytes(torch.exp, x32()) == nothing


def test_arguments_may_be_nested_and_results_too() -> None:
    def many(pair: dict[str, tuple[Tensor, Tensor]]) -> list[Tensor]:
        a, b = pair["ab"]
        return [a * b, a.exp()]

    found = saved_bytes(many, {"ab": (x32(), x32())})
    assert found == SavedBytes(inputs=2 * SIZE, parameters=0, new=SIZE)


def test_a_parameter_that_shares_storage_with_an_input_counts_once() -> None:
    weight = nn.Parameter(torch.ones(WIDTH))
    found = saved_bytes(lambda t, w: t * w, weight.detach().requires_grad_(), weight)
    assert found == SavedBytes(inputs=0, parameters=WIDTH * 4, new=0)


def test_meta_tensors_are_told_apart() -> None:
    x = torch.randn(ROWS, WIDTH, device="meta", requires_grad=True)
    y = torch.randn(ROWS, WIDTH, device="meta", requires_grad=True)
    assert saved_bytes(torch.mul, x, y).inputs == 2 * SIZE


def test_inner_gradients_still_work() -> None:
    def second_order(t: Tensor) -> Tensor:
        return torch.autograd.grad(t.pow(3).sum(), t, create_graph=True)[0]

    assert saved_bytes(second_order, x32()).total >= SIZE
