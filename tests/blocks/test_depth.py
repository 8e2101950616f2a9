"""What depth does at the start: the stream grows as the theory says, and so do the gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from normkit.blocks import CausalLM, Stream, TransformerConfig
from normkit.spec import PlacementSpec
from normkit.spec.placement import ALL_BRANCHES

DEPTHS = (2, 4, 8, 16, 32)
D, V = 32, 50


@dataclass(frozen=True)
class Start:
    """A model before its first step, with the mean square of the stream after each layer."""

    model: CausalLM
    stream: list[Tensor]
    loss: Tensor

    def gradient(self, layer: int) -> float:
        """Norm of the gradient of the second matrix of a layer's feed-forward."""
        block = self.model.transformer.blocks[layer]
        return float(block.ffn.second.weight.grad.norm())  # type: ignore[union-attr,operator]


def mean_square(x: Stream) -> Tensor:
    """Mean square of each token, (B, T); of two streams one after the other, (2, B, T)."""
    both = x if isinstance(x, Tensor) else torch.stack([x.main_BTD, x.second_BTD])
    return both.square().mean(-1)


def start(placement: str | PlacementSpec, depth: int, seed: int = 0) -> Start:
    """Build, run one batch of random tokens forward and backward.

    ReLU and a feed-forward as wide as the stream are the lemma's setting.
    """
    torch.manual_seed(seed)
    config = TransformerConfig(
        vocabulary=V, width=D, depth=depth, ffn_width=D, max_length=32,
        placement=placement, activation="relu",
    )  # fmt: skip
    model = CausalLM(config)
    stream: list[Tensor] = []
    for block in model.transformer.blocks:
        block.register_forward_hook(lambda module, args, x: stream.append(mean_square(x)))
    tokens, targets = torch.randint(V, (2, 4, 32))
    loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
    loss.backward()
    return Start(model, [x.detach() for x in stream], loss.detach())


def mean_start_gradient(placement: str, depth: int, layer: int) -> float:
    """Average the gradient of one layer over seeds."""
    return sum(start(placement, depth, seed).gradient(layer) for seed in range(3)) / 3


@pytest.mark.parametrize("placement", ["post", "deepnorm"])
def test_norm_on_the_sum_keeps_the_stream_at_one(placement: str) -> None:
    """Every token of every layer has mean square 1, up to eps."""
    for square in start(placement, 32).stream:
        torch.testing.assert_close(square, torch.ones_like(square), rtol=1e-4, atol=0)


@pytest.mark.parametrize("depth", DEPTHS)
def test_pre_norm_stream_grows_within_the_lemma(depth: int) -> None:
    """(1 + l/2) d <= E||x_l||^2 <= (1 + 3l/2) d (Xiong et al. 2020, lemma 2)."""
    square = start("pre", depth).stream[-1].mean().item()
    assert 1 + depth / 2 <= square <= 1 + 3 * depth / 2


@pytest.mark.parametrize(
    ("placement", "grows"),
    [
        # Each of the two branches of a layer adds a normalised vector.
        ("sandwich", 2.0),
        ("peri", 2.0),
        # So does attention here; the feed-forward adds one that was normalised before its matrix.
        ("normformer", 2.0),
        # Normalised before the last matrix of both branches, and those are gamma times as large.
        ("sub_ln", 2 * math.log(2 * 32)),
    ],
)
def test_stream_grows_by_normalised_vectors(placement: str, grows: float) -> None:
    """The mean square after L layers is 1 + grows L."""
    square = start(placement, 32).stream[-1].mean().item()
    assert square == pytest.approx(1 + grows * 32, rel=0.15)


def test_residual_keeps_one_stream_at_one_and_lets_the_other_grow() -> None:
    """The first is post-norm's, the second grows like pre-norm's: its branches read the first."""
    for main, _ in start("residual", 32).stream:
        torch.testing.assert_close(main, torch.ones_like(main), rtol=1e-4, atol=0)
    _, second = start("residual", 32).stream[-1]
    assert 1 + 32 / 2 <= second.mean().item() <= 1 + 3 * 32 / 2


@pytest.mark.parametrize(("depth", "scale"), [(8, 0.1), (20, 1e-5), (32, 1e-6)])
def test_layer_scale_stream_hardly_grows(depth: int, scale: float) -> None:
    """What pre-norm's adds, times the square of the scale; the cross term averages out."""
    stream = start("layer_scale", depth).stream
    added = (stream[-1] - stream[0]).mean().item()
    assert abs(added) < 3 * scale
    if scale == 0.1:
        assert scale**2 * depth / 4 < added


def test_rezero_stream_is_the_embedding() -> None:
    """Exactly, at every depth."""
    first, *others = start("rezero", 8).stream
    assert all(torch.equal(square, first) for square in others)
    assert first.mean().item() == pytest.approx(1.0, abs=0.1)


def test_final_norm_hides_the_growth_from_the_head() -> None:
    """Without a final norm the head of a deep pre-norm stack sees the grown stream."""
    bare = PlacementSpec(norm_in=ALL_BRANCHES)
    seen = []
    for placement in ("pre", bare):
        transformer = start(placement, 24).model.transformer
        seen.append(transformer(torch.randint(V, (4, 32))).square().mean().item())
    assert seen[0] == pytest.approx(1.0, rel=1e-3)
    assert seen[1] > 12


def test_last_gradient_by_depth() -> None:
    """Pre-norm's falls about like L^(-1/2), post-norm's does not (theorem 1)."""
    slope = {}
    for placement in ("pre", "post"):
        shallow, deep = (mean_start_gradient(placement, L, -1) for L in (2, 32))
        slope[placement] = math.log(deep / shallow) / math.log(16)
    assert -0.6 <= slope["pre"] <= -0.25
    assert slope["post"] > -0.1


def test_deepnorm_gradients_are_even_over_depth() -> None:
    """First and last layer get gradients of one size."""
    ratio = mean_start_gradient("deepnorm", 32, 0) / mean_start_gradient("deepnorm", 32, -1)
    assert ratio == pytest.approx(1.0, abs=0.2)


def test_first_loss_is_near_a_uniform_guess() -> None:
    """The head starts small enough: within a third of ln V."""
    loss = start("pre", 4).loss.item()
    assert math.log(V) - 0.1 < loss < 4 / 3 * math.log(V)
