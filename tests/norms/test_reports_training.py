"""Reports of runs that went wrong, where a layer or a model built of them is the answer."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor, nn

import normkit
from normkit import functional
from normkit.blocks import CausalLM, TransformerConfig

WIDTH = 8


@pytest.mark.parametrize(
    ("variance", "ours", "keras"), [(1e-2, 9.995, 9.535), (1e-6, 301.5, 31.61)]
)
def test_eps_of_the_source_framework(variance: float, ours: float, keras: float) -> None:
    # transformers#18597, #19454, tensorflow#42605: eps is part of the weights; percents, or 9.5x.
    x = torch.tensor([[-1.0, 1.0]], dtype=torch.float64) * variance**0.5
    for eps, gain in ((1e-5, ours), (1e-3, keras)):
        y = functional.layer_norm(x, 2, eps=eps)
        assert (y / x).mean().item() == pytest.approx(gain, rel=1e-3)
        assert f"eps={eps}" in repr(normkit.LayerNorm(2, eps=eps))


@pytest.mark.parametrize("zero_centred", [False, True], ids=["plain", "1 + w"])
@pytest.mark.parametrize("layer", [normkit.LayerNorm, normkit.RMSNorm], ids=lambda c: c.__name__)
def test_decay_pulls_a_plain_gain_to_zero_and_a_zero_centred_one_to_one(
    layer: type[nn.Module], zero_centred: bool
) -> None:
    # transformers#4360, #16908, minGPT#24, detectron2#737: 0.368 after 10 000 steps.
    norm = layer(WIDTH, zero_centred=zero_centred).double()
    x = torch.randn(3, WIDTH, dtype=torch.float64)
    before = norm(x)
    optimizer = torch.optim.AdamW(norm.parameters(), lr=0.1, weight_decay=0.1)
    for _ in range(100):
        for parameter in norm.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
    kept = 1.0 if zero_centred else 0.99**100
    torch.testing.assert_close(norm(x), kept * before)


@pytest.mark.parametrize("layer", [normkit.LayerNorm, normkit.RMSNorm], ids=lambda c: c.__name__)
def test_a_bfloat16_gain_moves_where_it_is_zero_centred(layer: type[nn.Module]) -> None:
    # flame#47, flash-linear-attention#676, speculators#668: a step of 1e-3 rounds away beside 1.
    gains = []
    for zero_centred in (False, True):
        norm = layer(WIDTH, zero_centred=zero_centred, dtype=torch.bfloat16)
        optimizer = torch.optim.AdamW([norm.weight], lr=1e-3, weight_decay=0.0)
        for _ in range(50):
            norm.weight.grad = torch.ones_like(norm.weight)
            optimizer.step()
        gains.append(norm.weight.float() + float(zero_centred))
    assert torch.equal(gains[0], torch.ones(WIDTH))
    torch.testing.assert_close(gains[1], torch.full((WIDTH,), 0.95), rtol=0, atol=2e-3)


def test_a_pre_norm_stack_ends_on_a_norm() -> None:
    # Speech#2197, xformers#665: without it the head sees a scale that grows with the depth.
    tokens = torch.randint(50, (2, 16))
    stds = []
    for depth in (2, 24):
        config = TransformerConfig(vocabulary=50, width=32, depth=depth, heads=2, placement="pre")
        body = CausalLM(config).transformer
        streams: list[Tensor] = []
        assert body.final_norm is not None
        body.final_norm.register_forward_pre_hook(
            lambda module, args, streams=streams: streams.append(args[0])
        )
        stds.append((streams, body(tokens)))
    (shallow, y_shallow), (deep, y_deep) = stds
    assert deep[0].std() > 2 * shallow[0].std()
    torch.testing.assert_close(y_deep.std(), y_shallow.std(), rtol=0.02, atol=0)


def test_every_norm_of_a_model_runs_once_and_learns() -> None:
    # OLMo#222, pytorch-seq2seq#100, MambaTransformer#14: one norm used twice, another never.
    config = TransformerConfig(vocabulary=20, width=8, depth=3, heads=2, placement="sandwich")
    model = CausalLM(config)
    calls: Counter[str] = Counter()
    norms = {n: m for n, m in model.named_modules() if isinstance(m, nn.LayerNorm)}
    for name, norm in norms.items():
        norm.register_forward_hook(lambda module, args, y, name=name: calls.update([name]))
    model(torch.randint(20, (2, 6))).square().sum().backward()
    assert len(norms) == 4 * 3 + 1
    assert calls == Counter(dict.fromkeys(norms, 1))
    for name, norm in norms.items():
        assert norm.weight.grad is not None, name
        assert norm.weight.grad.abs().sum() > 0, name


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_gradients_of_token_shards_add_up(name: str) -> None:
    # Megatron-LM#1446, #474, #443, TransformerEngine#435, gpt-neox#1257: without the sum over
    # ranks the copies of a gain drift apart.
    x, dy = torch.randn(2, 12, WIDTH, dtype=torch.float64)

    def gain_gradient(rows: slice) -> Tensor:
        weight = torch.ones(WIDTH, dtype=torch.float64, requires_grad=True)
        getattr(functional, name)(x[rows], WIDTH, weight).backward(dy[rows])
        assert weight.grad is not None
        return weight.grad

    shards = gain_gradient(slice(0, 5)) + gain_gradient(slice(5, 12))
    torch.testing.assert_close(gain_gradient(slice(0, 12)), shards, rtol=1e-12, atol=1e-12)
    assert (gain_gradient(slice(0, 5)) - shards).abs().max() > 0.1


def test_moments_of_unequal_shards_merge_by_their_counts() -> None:
    # pytorch#22192, #36382, #64039, apex#387: averages of the shards' variances are wrong.
    x = torch.randn(9, 3, dtype=torch.float64) * torch.arange(1, 10)[:, None]
    zeros, ones = torch.zeros(3).double(), torch.ones(3).double()
    parts = []
    for shard in (x[:2], x[2:]):
        out = functional.batch_norm(shard, zeros, ones, training=True, momentum=1.0)
        assert out.positions is not None
        assert out.running_mean is not None
        assert out.running_var is not None
        parts.append((out.positions, out.running_mean, out.running_var * (out.positions - 1)))
    (n_a, mean_a, m2_a), (n_b, mean_b, m2_b) = parts
    n, apart = n_a + n_b, mean_b - mean_a
    torch.testing.assert_close(mean_a + apart * n_b / n, x.mean(0))
    merged = (m2_a + m2_b + apart.square() * n_a * n_b / n) / (n - 1)
    torch.testing.assert_close(merged, x.var(0))


def test_conversion_to_synchronised_statistics() -> None:
    # pytorch#187298, mmocr#398: the converter rebuilds every BatchNorm that it finds as a plain
    # one; a masked norm, which it would feed without its mask, it must not find.
    model = nn.Sequential(normkit.BatchNorm1d(3), normkit.MaskedBatchNorm(3), normkit.LayerNorm(3))
    x = torch.randn(4, 3)
    model(x)
    model.eval()
    before = model(x)
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert isinstance(converted[0], nn.SyncBatchNorm)
    assert isinstance(converted[1], normkit.MaskedBatchNorm)
    torch.testing.assert_close(converted(x), before)
