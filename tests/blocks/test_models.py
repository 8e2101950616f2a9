"""Models as objects: copies, state, modes, input errors; and that they learn."""

from __future__ import annotations

import copy
import io
import math
import pickle
import re

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normkit.blocks import CausalLM, Encoder, TransformerConfig, token_norms
from normkit.errors import DtypeError, NormkitError, ShapeError
from normkit.spec import PLACEMENTS

NORMS = token_norms()
V, T = 12, 16
VALID = torch.arange(T) < torch.tensor([[T], [9], [4]])


def config(norm: str = "layer_norm", placement: str = "pre", **options: float) -> TransformerConfig:
    """Sizes of a small model."""
    return TransformerConfig(
        vocabulary=V, width=16, heads=2, max_length=T, norm=norm, placement=placement,
        **options,  # type: ignore[arg-type]
    )  # fmt: skip


def trained_a_little(norm: str, placement: str = "pre") -> CausalLM:
    """Make a model whose parameters and buffers are not those of a new one."""
    model = CausalLM(config(norm, placement))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randint(V, VALID.shape), VALID).square().mean().backward()
    optimizer.step()
    return model


@pytest.mark.parametrize("norm", NORMS)
def test_copies_compute_the_same(norm: str) -> None:
    """deepcopy, pickle, and a state_dict through torch.save into a new model."""
    model = trained_a_little(norm).eval()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    loaded = CausalLM(model.config).eval()
    loaded.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
    tokens = torch.randint(V, VALID.shape)
    want = model(tokens, VALID)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), loaded):
        assert torch.equal(twin(tokens, VALID), want)


@pytest.mark.parametrize("norm", NORMS)
def test_evaluation_is_deterministic(norm: str) -> None:
    """Dropout and batch statistics act in training alone."""
    model = Encoder(config(norm, dropout=0.3))
    tokens = torch.randint(V, VALID.shape)
    assert not torch.equal(model(tokens, VALID), model(tokens, VALID))
    model.eval()
    assert torch.equal(model(tokens, VALID), model(tokens, VALID))


def test_same_seed_same_model() -> None:
    """Norms draw nothing: models that differ in the norm alone share every other weight."""
    states = []
    for norm in ("layer_norm", "batch_norm", "no_norm"):
        torch.manual_seed(3)
        states.append(CausalLM(config(norm)).state_dict())
    for name in states[2]:
        assert torch.equal(states[0][name], states[1][name])
        assert torch.equal(states[0][name], states[2][name])


def test_causal_lm_is_transformer_and_head() -> None:
    """The head is a matrix of its own with a bias."""
    model = CausalLM(config())
    tokens = torch.randint(V, (2, 5))
    hidden = model.transformer(tokens)
    assert torch.equal(model(tokens), F.linear(hidden, model.head.weight, model.head.bias))
    assert model.head.weight is not model.transformer.tokens.weight


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtypes(dtype: torch.dtype) -> None:
    """The stream has the dtype of the weights."""
    model = Encoder(config("masked_batch_norm", "peri")).to(dtype)
    out = model(torch.randint(V, VALID.shape), VALID)
    assert out.dtype == dtype
    assert out.isfinite().all()


def test_int32_tokens() -> None:
    """Both integer types of an embedding."""
    model = CausalLM(config()).eval()
    tokens = torch.randint(V, (2, 5))
    assert torch.equal(model(tokens.int()), model(tokens))


@pytest.mark.parametrize(
    ("tokens", "valid", "kind", "text"),
    [
        (
            torch.zeros(4, dtype=torch.long),
            None,
            ShapeError,
            "Transformer: tokens must have 2 axes, (batch, position); tokens is (4,).",
        ),
        (
            torch.zeros(2, 3),
            None,
            DtypeError,
            "Transformer: tokens must be int64 or int32; tokens is torch.float32.",
        ),
        (
            torch.zeros(2, 17, dtype=torch.long),
            None,
            ShapeError,
            "Transformer: a row holds at most max_length=16 tokens; tokens is (2, 17)."
            " Try TransformerConfig(max_length=17).",
        ),
        (
            torch.zeros(2, 3, dtype=torch.long),
            torch.ones(2, 3),
            DtypeError,
            "Transformer: valid must be bool, True at real tokens; valid is torch.float32."
            " Try valid.bool().",
        ),
        (
            torch.zeros(2, 3, dtype=torch.long),
            torch.ones(2, 4, dtype=torch.bool),
            ShapeError,
            "Transformer: valid must have the shape of tokens; valid is (2, 4) and tokens is"
            " (2, 3).",
        ),
    ],
)
def test_input_errors(
    tokens: Tensor, valid: Tensor | None, kind: type[NormkitError], text: str
) -> None:
    """Each wrong input gets its sentence."""
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        CausalLM(config())(tokens, valid)


@pytest.mark.parametrize(
    ("norm", "placement"),
    [*((norm, "pre") for norm in NORMS), *(("layer_norm", name) for name in PLACEMENTS)],
)
def test_learns(norm: str, placement: str) -> None:
    """30 steps of Adam on a line that counts up: the loss falls well below a uniform guess."""
    model = CausalLM(config(norm, placement))
    losses = train(model, steps=30)
    assert losses[0] > math.log(V) - 0.5
    assert sum(losses[-5:]) / 5 < math.log(V) - 1.0


def train(model: nn.Module, steps: int) -> list[float]:
    """Predict the next of t, t + 1, t + 2, ... modulo V, in padded rows; loss on real ones."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        line = (torch.randint(V, (3, 1)) + torch.arange(T + 1)) % V
        logits = model(line[:, :-1], VALID)
        loss = F.cross_entropy(logits[VALID], line[:, 1:][VALID])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
