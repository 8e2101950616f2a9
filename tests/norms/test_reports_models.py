"""Public reports of norms that went wrong inside a model: each is a test here, with its numbers."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import normkit
from normkit import functional
from normkit.blocks import CausalLM, Residual, SelfAttention, TransformerConfig, deepnorm_constants
from normkit.blocks.ffn import FeedForward
from normkit.errors import ShapeError, StateError
from normkit.spec import PLACEMENTS
from tests.norms.row_norms import RMS, check

F64 = torch.float64


def real(lengths: list[int], longest: int) -> Tensor:
    """A mask (B, T), True at the first positions of each row."""
    return torch.arange(longest) < torch.tensor(lengths)[:, None]


def buffers(layer: nn.Module) -> dict[str, Tensor]:
    """A copy of them."""
    return {name: buffer.clone() for name, buffer in layer.named_buffers()}


def assert_same_buffers(a: nn.Module, b: nn.Module) -> None:
    """The same statistics up to rounding."""
    for name, buffer in a.named_buffers():
        torch.testing.assert_close(buffer, b.get_buffer(name), rtol=1e-12, atol=1e-12)


def test_padding_does_not_count_as_data() -> None:
    # pytorch#70529, #25910, tensorflow#30161, keras#3228: mean 2.25 and variance 2.4375 for the
    # padded rows, where the six real values have 3 and 1.
    x = torch.tensor([[2.0, 4, 4, 2], [2, 4, 0, 0]], dtype=F64)[..., None]
    valid = real([4, 2], 4)
    masked = normkit.MaskedBatchNorm(1, momentum=1.0, dtype=F64)
    y = masked(x, valid)
    want = torch.where(valid[..., None], (x - 3) / (1 + 1e-5) ** 0.5, 0)
    torch.testing.assert_close(y, want, rtol=1e-12, atol=1e-12)
    assert masked.running_mean.item() == pytest.approx(3.0)
    assert masked.running_var.item() * 5 / 6 == pytest.approx(1.0)
    naive = normkit.BatchNorm1d(1, momentum=1.0, dtype=F64)
    naive(x.reshape(8, 1))
    assert naive.running_mean.item() == pytest.approx(2.25)
    assert naive.running_var.item() * 7 / 8 == pytest.approx(2.4375)


@pytest.mark.parametrize("training", [True, False])
def test_what_padding_holds_and_how_much_there_is(training: bool) -> None:
    # pytorch#81985, Multilingual_Text_to_Speech#81, batchrenorm#2: valid outputs, gradients and
    # running statistics moved with the padding.
    x, valid = torch.randn(3, 6, 4, dtype=F64), real([6, 1, 3], 6)
    dy, results, layers = torch.randn(3, 6, 4, dtype=F64), [], []
    for filler, extra in ((0.0, 0), (1e6, 0), (torch.nan, 0), (torch.inf, 9)):
        layer = normkit.MaskedBatchNorm(4, dtype=F64).train(training)
        padded = torch.where(valid[..., None], x, filler)
        longer = nn.functional.pad(padded, (0, 0, 0, extra), value=filler).requires_grad_()
        mask = nn.functional.pad(valid, (0, extra))
        y = layer(longer, mask)
        y.backward(nn.functional.pad(dy, (0, 0, 0, extra), value=1.0))
        assert longer.grad is not None
        assert longer.grad[~mask].abs().sum() == 0
        results.append((y[mask], longer.grad[mask], layer.weight.grad))
        layers.append(layer)
    for other, layer in zip(results[1:], layers[1:], strict=True):
        for a, b in zip(other, results[0], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
        assert_same_buffers(layer, layers[0])


class ConvolutionOverTime(nn.Module):
    """Convolution, norm, convolution on x (B, C, T), as in a Conformer."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.first = nn.Conv1d(4, 4, 3, padding=1, dtype=F64)
        self.second = nn.Conv1d(4, 4, 3, padding=1, dtype=F64)
        norm: Any = normkit.MaskedBatchNorm(4, channel_axis=1, dtype=F64)
        self.norm = norm if masked else normkit.BatchNorm1d(4, dtype=F64)
        self.masked = masked

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """Real positions see real positions and zeros."""
        y = self.first(x)
        return self.second(self.norm(y, valid) if self.masked else self.norm(y))


@pytest.mark.parametrize("training", [True, False])
def test_norm_between_convolutions_over_padded_time(training: bool) -> None:
    # pytorch#81985, audio#4205, #4206, axlearn#645: outputs moved by 0.28 with 7 more frames.
    lengths = [6, 4]
    x = torch.randn(2, 4, 6, dtype=F64) * real(lengths, 6)[:, None]
    moved = {}
    for masked in (True, False):
        model = ConvolutionOverTime(masked).train(training)
        y = model(x, real(lengths, 6))
        longer = model(nn.functional.pad(x, (0, 7)), real(lengths, 13))[..., :6]
        moved[masked] = (y - longer)[real(lengths, 6)[:, None].expand(2, 4, 6)].abs().max().item()
    assert moved[True] < 1e-12
    assert moved[False] > 1e-3


@pytest.mark.parametrize("norm", [normkit.LayerNorm, normkit.RMSNorm])
def test_a_token_norm_stays_inside_its_token(norm: Any) -> None:
    # bert#1088, udlbook#237, geometric-algebra-transformer#8, FuxiCTR#23: LayerNorm(x.shape[1:])
    # mixes tokens and ties its weight to T.
    layer, mixing = norm(8), norm((5, 8))
    x = torch.randn(2, 5, 8)
    other = x.clone()
    other[:, 3] += 5
    rest = [0, 1, 2, 4]
    assert torch.equal(layer(other)[:, rest], layer(x)[:, rest])
    assert not torch.equal(mixing(other)[:, rest], mixing(x)[:, rest])
    assert all(p.shape == (8,) for p in layer.parameters())
    assert layer(torch.randn(2, 7, 8)).shape == (2, 7, 8)
    text = "the last 2 axes of x must be (5, 8); x is (2, 7, 8). Try normalized_shape=(7, 8)."
    with pytest.raises(ShapeError, match=re.escape(text)):
        mixing(torch.randn(2, 7, 8))


def test_a_channel_norm_on_an_image_says_which_axis_it_needs() -> None:
    # ConvNeXt#112, keras-team/tf-keras#173, pytorch#74033, segformer-pytorch#7: LayerNorm of the
    # channels met (B, C, H, W).
    text = (
        "layer_norm: the last axis of x must be 8; x is (2, 8, 5, 6). "
        "Try normalized_shape=6, or x.transpose(-1, -3)."
    )
    with pytest.raises(ShapeError, match=f"^{re.escape(text)}$"):
        normkit.LayerNorm(8)(torch.randn(2, 8, 5, 6))


# Without a mask the two are the same.
each_batch_norm = pytest.mark.parametrize("norm", [normkit.BatchNorm1d, normkit.MaskedBatchNorm])


@each_batch_norm
@pytest.mark.parametrize(
    ("positions", "layers", "wanted"), [(64, 1, 0.9922), (64, 20, 0.854), (2, 1, 0.7071)]
)
def test_gap_between_training_and_evaluation(
    norm: Any, positions: int, layers: int, wanted: float
) -> None:
    # pytorch#5406, #4741, #100048, #19902, #4253, pytorch_geometric#1493, higher#55: the running
    # variance divides by n - 1, the batch's by n, so eval / train is sqrt((n - 1) / n) per layer.
    model = nn.Sequential(*(norm(3, eps=0.0, momentum=1.0, dtype=F64) for _ in range(layers)))
    x = torch.randn(positions, 3, dtype=F64)
    trained = model(x)
    ratio = model.eval()(x) / trained
    exact = ((positions - 1) / positions) ** (layers / 2)
    assert exact == pytest.approx(wanted, abs=5e-4)
    torch.testing.assert_close(ratio, torch.full_like(ratio, exact), rtol=1e-9, atol=0)


@each_batch_norm
def test_a_pass_with_momentum_none_recalibrates(norm: Any) -> None:
    # pytorch#4741, #100048: the cure when running statistics are stale.
    layer = norm(3, dtype=F64)
    batches = torch.randn(50, 64, 3, dtype=F64) * 4 + 7
    layer(batches[0])
    stale = layer.eval()(batches.flatten(0, 1)).mean(0)
    layer.momentum = None
    layer.reset_running_stats()
    layer.train()
    for x in batches:
        layer(x)
    y = layer.eval()(batches.flatten(0, 1))
    assert stale.abs().max() > 1
    assert y.mean(0).abs().max() < 1e-9
    assert (y.std(0) - 1).abs().max() < 0.01


@pytest.mark.parametrize("shape", [(1, 16), (1, 16, 1), (1, 16, 1, 1), (1, 16, 1, 1, 1)], ids=str)
def test_a_batch_of_one(shape: tuple[int, ...]) -> None:
    # pytorch#4534, fastai#1352, SCNet#8: the odd last batch, or global pooling to 1x1.
    dims = max(len(shape) - 2, 1)
    layer = getattr(normkit, f"BatchNorm{dims}d")(16)
    before = buffers(layer)
    text = (
        f"BatchNorm{dims}d: training needs more than one value per channel; x of shape {shape} "
        "has one. Use larger batches (drop_last=True in the loader), .eval(), or a LayerNorm."
    )
    with pytest.raises(StateError, match=f"^{re.escape(text)}$"):
        layer(torch.randn(shape))
    assert all(torch.equal(value, before[name]) for name, value in layer.named_buffers())
    assert layer.eval()(torch.randn(shape)).isfinite().all()


@each_batch_norm
def test_a_batch_of_two_keeps_the_sign_only(norm: Any) -> None:
    # pytorch#4534: defined, +-1 / sqrt(1 + eps / var), whatever the two numbers are.
    x = torch.randn(2, 4, dtype=F64)
    half = (x[0] - x[1]) / 2
    for eps in (1e-5, 0.0):
        want = half / (half.square() + eps).sqrt()
        y = norm(4, eps=eps, dtype=F64)(x)
        torch.testing.assert_close(y, torch.stack([want, -want]), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(y[0], half.sign(), rtol=1e-12, atol=0)


def tutorial_norm(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    """The LayerNorm of a well-known tutorial: std with 1 / (n - 1), eps outside."""
    mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
    return gain * (x - mean) / (std + eps) + bias


@pytest.mark.parametrize(("width", "factor"), [(4, 0.8660), (768, 0.99935)])
def test_porting_an_unbiased_std_with_eps_outside(width: int, factor: float) -> None:
    # annotated-transformer#119, #122, BERT-pytorch#30, hyunwoongko/transformer#7, allennlp#953,
    # pytorch#22617: weights * sqrt((n - 1) / n), and eps, in its own place, by the same.
    k = ((width - 1) / width) ** 0.5
    assert k == pytest.approx(factor, abs=5e-6 if width > 4 else 5e-5)
    gain, bias = torch.randn(2, width, dtype=F64)
    layer = normkit.LayerNorm(width, eps=1e-3 * k, eps_place="outside", dtype=F64)
    layer.load_state_dict({"weight": gain * k, "bias": bias})
    for size in (1.0, 1e-3):
        x = size * torch.randn(5, width, dtype=F64)
        want = tutorial_norm(x, gain, bias, 1e-3)
        torch.testing.assert_close(layer(x), want, rtol=1e-10, atol=1e-10)


def test_unbiased_std_and_place_of_eps_by_number() -> None:
    # annotated-transformer#119: one at width 4; at a spread of 1e-3 and eps 1e-5, 0.301 or 0.990.
    x = torch.tensor([[1.0, 0.0, 0.0, 0.0]], dtype=F64)
    ours = functional.layer_norm(x, 4)[0].tolist()
    assert ours == pytest.approx([1.7320] + [-0.5773] * 3, abs=1e-4)
    theirs = tutorial_norm(x, torch.ones(4), torch.zeros(4), 1e-6)[0].tolist()
    assert theirs == pytest.approx([1.5] + [-0.5] * 3, abs=1e-5)
    small = 1e-3 * torch.tensor([[1.0, -1.0]], dtype=F64)
    inside = functional.layer_norm(small, 2, eps=1e-5)
    outside = functional.layer_norm(small, 2, eps=1e-5, eps_place="outside")
    assert inside[0, 0].item() == pytest.approx(0.3015, abs=5e-5)
    assert outside[0, 0].item() == pytest.approx(0.9901, abs=5e-5)


def test_an_overflow_can_be_left_out_of_the_statistics() -> None:
    # pytorch#88474, #90342, #96798, #115500: the scaler skips the step, the buffers keep the inf.
    x = torch.tensor([[1.0, 2.0], [torch.inf, 3.0], [0.0, 1.0]])
    poisoned, kept = normkit.BatchNorm1d(2), normkit.MaskedBatchNorm(2)
    poisoned(x)
    assert not poisoned.running_mean.isfinite().all()
    kept(x, x.isfinite().all(-1))
    assert kept.running_mean.tolist() == pytest.approx([0.05, 0.15])
    assert kept.running_var.tolist() == pytest.approx([0.9 + 0.1 * 0.5] * 2)
    assert kept.eval()(x[[0, 2]]).isfinite().all()
    out = functional.batch_norm(x, torch.zeros(2), torch.ones(2), training=True)
    assert out.running_mean is not None
    assert out.running_mean.isfinite().tolist() == [False, True]  # for the caller to decide


def test_deepnorm_constants() -> None:
    # annotated_deep_learning_paper_implementations#145, xformers#284, torchscale#16, #219.
    for layers, alpha, beta in ((6, 1.8612, 0.3799), (12, 2.2134, 0.3195), (24, 2.6321, 0.2686)):
        pair = deepnorm_constants(decoder_layers=layers).decoder
        assert pair == pytest.approx((alpha, beta), abs=5e-5)
        assert deepnorm_constants(encoder_layers=layers).encoder == pair
    both = deepnorm_constants(encoder_layers=12, decoder_layers=12)
    assert both.encoder == pytest.approx((1.7609, 0.4002), abs=5e-5)
    assert both.decoder == pytest.approx((2.4495, 0.2887), abs=5e-5)
    # N and M are not one number: the decoder looks at M alone.
    assert deepnorm_constants(encoder_layers=18, decoder_layers=12).decoder == both.decoder


def test_deepnorm_scales_the_skip_and_norms_the_sum() -> None:
    # annotated_deep_learning_paper_implementations#145: alpha on the branch; a norm forgotten.
    around = Residual(PLACEMENTS["deepnorm"].spec, "ffn", norm="layer_norm", width=6, alpha=2.2134)
    x = torch.randn(2, 3, 6)
    want = nn.functional.layer_norm(2.2134 * x + x.sin(), (6,))
    torch.testing.assert_close(around(x, torch.sin), want)


def test_deepnorm_beta_reaches_the_value_slice_of_a_fused_matrix() -> None:
    # xformers#284, #219, torchscale#16: one gain for the whole of query, key and value.
    width, beta = 96, 0.3195
    model = CausalLM(TransformerConfig(
        vocabulary=5, width=width, heads=2, depth=12, norm="layer_norm", placement="deepnorm"
    ))  # fmt: skip

    def gain(weight: Tensor) -> float:
        return weight.std().item() / (2 / sum(weight.shape)) ** 0.5

    for module in model.modules():
        if isinstance(module, SelfAttention):
            query, key, value = module.qkv.weight.chunk(3)
            found = [gain(m) for m in (query, key, value, module.output.weight)]
            assert found == pytest.approx([1, 1, beta, beta], rel=0.05)
        if isinstance(module, FeedForward):
            found = [gain(module.first.weight), gain(module.second.weight)]
            assert found == pytest.approx([beta, beta], rel=0.05)


@pytest.mark.parametrize("norm", [normkit.LayerNorm, normkit.RMSNorm])
def test_plain_weights_in_a_zero_centred_norm(norm: Any) -> None:
    # Liger-Kernel#74, #89, axolotl#1886, TransformerEngine#577, #67, #631, vllm#31464,
    # transformers#40796, #40224, executorch#22444, mlx-vlm#2111: w for 1 + w, or added twice.
    plain, centred = norm(16, eps=1e-6), norm(16, eps=1e-6, zero_centred=True)
    x = torch.randn(4, 16)
    assert plain.weight.tolist() == [1.0] * 16
    assert centred.weight.tolist() == [0.0] * 16
    assert torch.equal(plain(x), centred(x))
    assert "zero_centred=True" in repr(centred)
    assert "zero_centred" not in repr(plain)
    # The trap: it loads without a word, and the gain is 2.
    centred.load_state_dict(plain.state_dict())
    torch.testing.assert_close(centred(x), 2 * plain(x))


def test_gradients_of_a_zero_centred_norm() -> None:
    # TransformerEngine#67: dx needs 1 + w, dw does not.
    x, dy = torch.randn(2, 6, 16, dtype=F64)
    w = torch.randn(16, dtype=F64)
    y, dx, dweight, _ = check(RMS, x, dy, 1 + w)
    leaf, weight = x.clone().requires_grad_(), w.clone().requires_grad_()
    ours = functional.rms_norm(leaf, 16, weight, 1e-5, zero_centred=True)
    ours.backward(dy)
    for got, want in ((ours, y), (leaf.grad, dx), (weight.grad, dweight)):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


def test_one_is_added_in_the_compute_dtype() -> None:
    # TransformerEngine#631: in bfloat16 1 + 2^-9 is 1.
    w = torch.full((2,), 2.0**-9).bfloat16()
    y = functional.rms_norm(torch.ones(1, 2), 2, w, 0.0, zero_centred=True)
    assert y.tolist() == [[1 + 2.0**-9] * 2]


def differing(a: Tensor, b: Tensor) -> float:
    """Share of elements that differ."""
    return (a != b).double().mean().item()


def test_rounding_once_or_before_the_gain() -> None:
    # TransformerEngine#1132, vllm#42325, #42379, transformers#25421, #30236, apex#1652,
    # Liger-Kernel#950: a quarter of the elements differ, and each side calls the other a bug.
    x = torch.randn(64, 512).bfloat16()
    weight = (1 + 0.3 * torch.randn(512)).bfloat16()
    truth = RMS.truth(x, x, weight, eps=1e-6)
    once = functional.rms_norm(x, 512, weight, 1e-6)
    before = functional.rms_norm(x, 512, weight, 1e-6, rounding="before_gain")
    right = (once, truth.y.bfloat16()), (before, truth.x_hat.bfloat16() * weight)
    for got, want in right:  # but for ties that a float32 computation would round otherwise
        assert differing(got, want) < 1e-3
    assert differing(once, before) == pytest.approx(0.257, abs=0.02)
    errors = [(y.double() - truth.y).abs().max().item() for y in (once, before)]
    assert errors[0] < errors[1]


def test_a_float32_weight_does_not_change_the_output_dtype() -> None:
    # transformers#25421, #30236: Llama's form returns float32 then, and the next Linear raises.
    x, weight = torch.randn(4, 8).bfloat16(), torch.ones(8)
    linear = nn.Linear(8, 8, dtype=torch.bfloat16)
    for rounding in ("once", "before_gain"):
        layer = normkit.RMSNorm(8, rounding=rounding)  # type: ignore[arg-type]
        assert linear(layer(x)).dtype == torch.bfloat16
    promoted = functional.rms_norm(x, 8, weight, rounding="before_gain", output_dtype="promoted")
    assert promoted.dtype == torch.float32
