"""LayerNorm LSTM and GRU: the paper's formulas, torch's without the norms, padding, sentences."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.utils.rnn import pack_padded_sequence

import normkit
from normkit.errors import DtypeError, OptionError, ShapeError

NAMES = ("LayerNormLSTM", "LayerNormGRU")
every_layer = pytest.mark.parametrize("name", NAMES)
every_cell = pytest.mark.parametrize("name", [f"{name}Cell" for name in NAMES])
INPUT, HIDDEN = 3, 4


def make(name: str, *args: Any, **options: Any) -> Any:
    """A cell or layer in float64 with parameters that no default hides behind."""
    module = getattr(normkit, name)(INPUT, HIDDEN, *args, **{"dtype": torch.float64, **options})
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module


def twin(name: str) -> Any:
    """torch's module of the same name without LayerNorm."""
    return getattr(nn, name.removeprefix("LayerNorm"))


def states_of(result: Any) -> tuple[Tensor, ...]:
    """h, or (h, c)."""
    return result if isinstance(result, tuple) else (result,)


def hx(name: str, *shape: int) -> Any:
    """A first state."""
    h, c = torch.randn(2, *shape, HIDDEN, dtype=torch.float64)
    return (h, c) if "LSTM" in name else h


def without_norms(module: nn.Module) -> None:
    """Replace every norm by the identity."""
    for parent in list(module.modules()):
        for child in [n for n, m in parent.named_children() if isinstance(m, normkit.LayerNorm)]:
            setattr(parent, child, normkit.NoNorm())


def unit(t: Tensor) -> Tensor:
    """LayerNorm without gain and bias."""
    return (t - t.mean(-1, keepdim=True)) / (t.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()


@every_cell
@pytest.mark.parametrize("bias", [True, False])
def test_without_norms_a_cell_is_that_of_torch(name: str, bias: bool) -> None:
    ours, theirs = make(name, bias), twin(name)(INPUT, HIDDEN, bias, dtype=torch.float64)
    without_norms(ours)
    ours.load_state_dict(theirs.state_dict())
    x, state = torch.randn(2, INPUT, dtype=torch.float64), hx(name, 2)
    for given in (None, state):
        results = [states_of(cell(x, given)) for cell in (ours, theirs)]
        for a, b in zip(*results, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-15)
    alone = states_of(ours(x[0], hx(name)))
    assert all(t.shape == (HIDDEN,) for t in alone)


@every_layer
@pytest.mark.parametrize("batch_first", [False, True])
def test_without_norms_a_layer_is_that_of_torch(name: str, batch_first: bool) -> None:
    options = {"num_layers": 2, "bidirectional": True, "batch_first": batch_first}
    ours, theirs = make(name, **options), twin(name)(3, 4, **options, dtype=torch.float64)
    without_norms(ours)
    for k, cell in enumerate(ours.cells):
        suffix = f"_l{k // 2}" + ("_reverse" if k % 2 else "")
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        cell.load_state_dict({n: getattr(theirs, n + suffix) for n in names})
    x = torch.randn(2, 5, INPUT, dtype=torch.float64)
    h, c = torch.randn(2, 4, 2 if batch_first else 5, HIDDEN, dtype=torch.float64)
    state = (h, c) if "LSTM" in name else h
    (y, ends), (want, want_ends) = ours(x, state), theirs(x, state)
    torch.testing.assert_close(y, want)
    for a, b in zip(states_of(ends), states_of(want_ends), strict=True):
        torch.testing.assert_close(a, b)


def test_the_lstm_cell_is_that_of_the_paper() -> None:
    cell = make("LayerNormLSTMCell")
    x, (h, c) = torch.randn(2, INPUT, dtype=torch.float64), hx("LSTM", 2)
    pre = cell.norm_hh.weight * unit(h @ cell.weight_hh.T) + cell.bias_hh
    pre = pre + cell.norm_ih.weight * unit(x @ cell.weight_ih.T) + cell.bias_ih
    i, f, g, o = pre.unflatten(-1, (4, HIDDEN)).unbind(-2)
    new = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    out = torch.sigmoid(o) * torch.tanh(cell.norm_c.weight * unit(new) + cell.norm_c.bias)
    for got, want in zip(cell(x, (h, c)), (out, new), strict=True):
        torch.testing.assert_close(got, want)


def test_the_gru_cell_is_that_of_the_paper() -> None:
    # Gates and candidate have statistics of their own; the reset gate acts on LN(U h).
    cell = make("LayerNormGRUCell")
    x, h = torch.randn(2, INPUT, dtype=torch.float64), hx("GRU", 2)
    gates, rest = slice(0, 2 * HIDDEN), slice(2 * HIDDEN, None)

    def side(t: Tensor, weight: Tensor, bias: Tensor, norms: tuple[Any, Any]) -> list[Tensor]:
        parts = zip((gates, rest), norms, strict=True)
        return [n.weight * unit(t @ weight[p].T) + bias[p] for p, n in parts]

    x_gates, x_new = side(x, cell.weight_ih, cell.bias_ih, (cell.norm_ih, cell.norm_in))
    h_gates, h_new = side(h, cell.weight_hh, cell.bias_hh, (cell.norm_hh, cell.norm_hn))
    r, z = torch.sigmoid(x_gates + h_gates).chunk(2, -1)
    n = torch.tanh(x_new + r * h_new)
    torch.testing.assert_close(cell(x, h), (1 - z) * n + z * h)


@every_layer
def test_a_padded_sequence_is_that_sequence_alone(name: str) -> None:
    layer = make(name, num_layers=2, bidirectional=True, batch_first=True)
    x = torch.randn(3, 6, INPUT, dtype=torch.float64)
    lengths = (6, 1, 4)
    state = tuple(t.clone() for t in states_of(hx("LSTM", 4, 3)))
    valid = torch.arange(6) < torch.tensor(lengths)[:, None]
    weights = torch.randn(3, 6, 2 * HIDDEN, dtype=torch.float64)

    def given(i: slice) -> Any:
        return tuple(t[:, i] for t in state) if "LSTM" in name else state[0][:, i]

    padded = torch.where(valid[:, :, None], x, torch.nan).requires_grad_()
    y, ends = layer(padded, given(slice(None)), valid=valid)
    loss = (y * weights).sum() + sum(t.square().sum() for t in states_of(ends))
    got = torch.autograd.grad(loss, (padded, *layer.parameters()))
    want = [torch.zeros_like(p) for p in layer.parameters()]
    for i, length in enumerate(lengths):
        alone = x[i : i + 1, :length].clone().requires_grad_()
        y_alone, ends_alone = layer(alone, given(slice(i, i + 1)))
        torch.testing.assert_close(y[i, :length], y_alone[0])
        for a, b in zip(states_of(ends), states_of(ends_alone), strict=True):
            torch.testing.assert_close(a[:, i], b[:, 0])
        loss = (y_alone * weights[i, :length]).sum()
        loss = loss + sum(t.square().sum() for t in states_of(ends_alone))
        dx, *gradients = torch.autograd.grad(loss, (alone, *layer.parameters()))
        torch.testing.assert_close(got[0][i, :length], dx[0])
        want = [a + b for a, b in zip(want, gradients, strict=True)]
    assert y[~valid].abs().sum() == 0
    assert got[0][~valid].abs().sum() == 0
    for a, b in zip(got[1:], want, strict=True):
        torch.testing.assert_close(a, b)


@every_layer
def test_lengths_and_the_context_are_the_mask(name: str) -> None:
    layer = make(name)  # (T, B, input), and the mask is (B, T) all the same
    x = torch.randn(4, 2, INPUT, dtype=torch.float64)
    valid = torch.tensor([[True, True, True, False], [True, False, False, False]])
    want, _ = layer(x, valid=valid)
    assert torch.equal(layer(x, lengths=[3, 1])[0], want)
    assert torch.equal(layer(x, lengths=torch.tensor([3, 1]))[0], want)
    with normkit.valid(valid):
        assert torch.equal(layer(x)[0], want)
        assert torch.equal(layer(x, lengths=[3, 1])[0], want)
    assert not torch.equal(layer(x)[0], want)


@every_layer
def test_a_sequence_without_a_real_position_keeps_its_state(name: str) -> None:
    layer, state = make(name, bidirectional=True), hx(name, 2, 2)
    x = torch.randn(3, 2, INPUT, dtype=torch.float64)
    y, ends = layer(x, state, lengths=[3, 0])
    assert y[:, 1].abs().sum() == 0
    for after, before in zip(states_of(ends), states_of(state), strict=True):
        assert torch.equal(after[:, 1], before[:, 1])
        assert not torch.equal(after[:, 0], before[:, 0])


@every_layer
def test_one_sequence_without_a_batch_axis(name: str) -> None:
    layer = make(name, batch_first=True)
    x, state = torch.randn(5, INPUT, dtype=torch.float64), hx(name, 1)
    y, ends = layer(x, state, valid=torch.tensor([True, True, True, False, False]))
    one = tuple(t[:, None] for t in states_of(state))
    want, want_ends = layer(x[None], one if "LSTM" in name else one[0], lengths=[3])
    assert torch.equal(y, want[0])
    for a, b in zip(states_of(ends), states_of(want_ends), strict=True):
        assert torch.equal(a, b[:, 0])


@every_layer
def test_first_and_second_derivatives(name: str) -> None:
    layer = make(name)
    names, parameters = zip(*layer.named_parameters(), strict=True)

    def f(x: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        state = dict(zip(names, values, strict=True))
        kwargs = {"lengths": torch.tensor([2])}
        y, ends = torch.func.functional_call(layer, state, (x,), kwargs)
        return y, *states_of(ends)

    x = torch.randn(3, 1, INPUT, dtype=torch.float64, requires_grad=True)
    assert gradcheck(f, (x, *parameters), fast_mode=True)
    assert gradgradcheck(f, (x, *parameters), fast_mode=True)


@every_layer
def test_dropout_stands_between_layers_and_in_training_only(name: str) -> None:
    dropped = make(name, num_layers=2, dropout=1.0)
    plain = make(name, num_layers=2)
    plain.load_state_dict(dropped.state_dict())
    x = torch.randn(3, 2, INPUT, dtype=torch.float64)
    upper = getattr(normkit, name)(HIDDEN, HIDDEN, dtype=torch.float64)
    zeros = torch.zeros(3, 2, HIDDEN, dtype=torch.float64)  # all that it sees in training
    upper.cells[0].load_state_dict(dropped.cells[1].state_dict())
    assert torch.equal(dropped(x)[0], upper(zeros)[0])
    assert dropped(x)[0].abs().min() > 0  # the last layer's output is not dropped
    assert torch.equal(dropped.eval()(x)[0], plain(x)[0])


@every_layer
def test_the_input_of_all_steps_is_projected_at_once(name: str) -> None:
    layer = make(name)
    calls: dict[str, list[tuple[int, ...]]] = {"norm_ih": [], "norm_hh": []}
    for norm, shapes in calls.items():
        getattr(layer.cells[0], norm).register_forward_hook(
            lambda module, args, output, shapes=shapes: shapes.append(tuple(args[0].shape))
        )
    layer(torch.randn(5, 2, INPUT, dtype=torch.float64))
    width = (4 if "LSTM" in name else 2) * HIDDEN
    assert calls == {"norm_ih": [(5, 2, width)], "norm_hh": [(2, width)] * 5}


@every_cell
def test_every_norm_has_a_gain_of_its_own_that_learns(name: str) -> None:
    # A norm that is shared by mistake (OLMo#222) or never called leaves a gain without gradient.
    cell = make(name)
    norms = [m for m in cell.modules() if isinstance(m, normkit.LayerNorm)]
    assert len({id(norm.weight) for norm in norms}) == (3 if "LSTM" in name else 4)
    x = torch.randn(2, INPUT, dtype=torch.float64)
    states_of(cell(x, hx(name, 2)))[0].square().sum().backward()
    for parameter in cell.parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().max() > 1e-6


@every_cell
def test_start_and_reset(name: str) -> None:
    options = {"forget_bias": 2.0} if "LSTM" in name else {}
    with torch.device("meta"):
        cell = getattr(normkit, name)(INPUT, HIDDEN, **options)
    cell.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.fill_(7)
    cell.reset_parameters()
    for weight in (cell.weight_ih, cell.weight_hh):
        assert 0 < weight.abs().max() <= HIDDEN**-0.5
    want = torch.zeros_like(cell.bias_ih)
    if options:
        want[HIDDEN : 2 * HIDDEN] = 2.0  # torch's order of gates is i, f, g, o
    assert torch.equal(cell.bias_ih, want)
    assert cell.bias_hh.abs().sum() == 0
    for norm in cell.children():
        assert torch.equal(norm.weight, torch.ones_like(norm.weight))


def test_the_forget_gate_starts_open() -> None:
    cell = normkit.LayerNormLSTMCell(INPUT, HIDDEN)
    assert torch.equal(cell.bias_ih.chunk(4)[1], torch.ones(HIDDEN))  # type: ignore[union-attr]
    layer = normkit.LayerNormLSTM(INPUT, HIDDEN, 2, forget_bias=3.0, eps=0.5)
    for each in layer.cells:
        assert torch.equal(each.bias_ih.chunk(4)[1], torch.full((HIDDEN,), 3.0))
        assert each.norm_c.eps == each.norm_ih.eps == 0.5


@every_layer
def test_copies_meta_and_half(name: str) -> None:
    layer = make(name, num_layers=2)
    x = torch.randn(3, 2, INPUT, dtype=torch.float64)
    fresh = make(name, num_layers=2)
    fresh.load_state_dict(layer.state_dict())
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), fresh):
        assert torch.equal(other(x)[0], layer(x)[0])
        assert repr(other) == repr(layer)
    y, ends = layer.bfloat16()(x.bfloat16(), lengths=[3, 1])
    assert {t.dtype for t in (y, *states_of(ends))} == {torch.bfloat16}
    torch.testing.assert_close(y[:, 0].double(), fresh(x)[0][:, 0], rtol=0.1, atol=0.1)
    with torch.device("meta"):
        assert getattr(normkit, name)(INPUT, HIDDEN)(torch.randn(3, 2, INPUT))[0].is_meta


def test_reprs() -> None:
    text = repr(normkit.LayerNormLSTM(3, 4, 2, batch_first=True, dropout=0.5))
    assert text.startswith("LayerNormLSTM(\n  3, 4, num_layers=2, batch_first=True, dropout=0.5\n")
    assert "LayerNormGRUCell(\n  3, 4, bias=False\n" in repr(normkit.LayerNormGRUCell(3, 4, False))


def packed() -> Any:
    """What torch's layers also take."""
    return pack_padded_sequence(torch.ones(3, 2, INPUT), torch.tensor([3, 1]))


LSTM, X = normkit.LayerNormLSTM(INPUT, HIDDEN), torch.ones(5, 2, INPUT)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: LSTM(packed()),
            DtypeError,
            "LayerNormLSTM: x must be a padded tensor; it is a PackedSequence. "
            "Give the padded tensor and lengths=, or valid=, True where a position is real.",
        ),
        (
            lambda: LSTM(X[..., :2]),
            ShapeError,
            "LayerNormLSTM: the last axis of x must be 3; x is (5, 2, 2).",
        ),
        (
            lambda: LSTM(X[:0]),
            ShapeError,
            "LayerNormLSTM: a sequence must have at least one position; "
            "x is (0, 2, 3), (T, B, input_size).",
        ),
        (
            lambda: LSTM(X[None]),
            ShapeError,
            "LayerNormLSTM: x must be (T, B, input_size) or (T, input_size); x is (1, 5, 2, 3).",
        ),
        (
            lambda: LSTM(X, (torch.ones(1, 2, 4), torch.ones(1, 5, 4))),
            ShapeError,
            "LayerNormLSTM: c_0 must be (1, 2, 4); it is (1, 5, 4).",
        ),
        (
            lambda: LSTM(X, valid=torch.ones(5, 2).bool()),
            ShapeError,
            "LayerNormLSTM: valid must be broadcastable to x without its channel axis, (2, 5); "
            "it is (5, 2).",
        ),
        (
            lambda: LSTM(X, lengths=[6, 1]),
            ShapeError,
            "LayerNormLSTM: lengths must lie between 0 and the 5 positions of x; "
            "they go from 1 to 6.",
        ),
        (
            lambda: LSTM(X, lengths=[5.0, 1.0]),
            ShapeError,
            "LayerNormLSTM: lengths must hold an integer for each of the 2 sequences; "
            "it is torch.float32 of shape (2,).",
        ),
        (
            lambda: LSTM(X, lengths=[5, 1], valid=torch.ones(2, 5).bool()),
            OptionError,
            "LayerNormLSTM: give valid or lengths, not both; both are given.",
        ),
        (
            lambda: normkit.LayerNormGRU(3, 4, dropout=1.5),
            OptionError,
            "LayerNormGRU: dropout must lie in [0, 1]; it is 1.5.",
        ),
        (
            lambda: normkit.LayerNormGRU(3, 4, 0),
            OptionError,
            "LayerNormGRU: num_layers must be an integer of at least 1; it is 0.",
        ),
        (
            lambda: normkit.LayerNormGRUCell(3, 0),
            OptionError,
            "LayerNormGRUCell: hidden_size must be an integer of at least 1; it is 0.",
        ),
        (
            lambda: normkit.LayerNormGRUCell(3, 4)(torch.ones(2, 3), torch.ones(2, 3)),
            ShapeError,
            "LayerNormGRUCell: h must be (2, 4); it is (2, 3).",
        ),
    ],
)
def test_wrong_input_gets_a_sentence(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()
