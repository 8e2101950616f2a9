"""Public reports of wrong interfaces of norms: shapes, dtypes, states, attributes, export.

Each report is a test here, with its own numbers.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import normkit
from normkit import functional
from normkit.errors import DtypeError, ImplError, ShapeError
from tests.norms.named import (
    BATCHES,
    SHAPES,
    every_batch_norm,
    every_layer,
    every_norm,
    make,
    sample,
    token_norm,
)
from tests.norms.row_norms import RowNorm, check_output, every_row_norm

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64


@every_row_norm
@pytest.mark.parametrize(
    ("x_dtype", "weight_dtype", "bias_dtype"),
    [
        (F32, F16, F16),
        (F32, BF16, BF16),
        (BF16, BF16, F32),
        (BF16, F32, BF16),
        (BF16, F16, F16),
        (F16, F64, F64),
        (BF16, F32, F32),
        (BF16, F32, None),
        (BF16, None, F32),
    ],
    ids=str,
)
def test_any_pair_of_dtypes(
    norm: RowNorm,
    x_dtype: torch.dtype,
    weight_dtype: torch.dtype | None,
    bias_dtype: torch.dtype | None,
) -> None:
    # intel-extension-for-pytorch#731, pytorch#81851, #190055, ChatGLM-Efficient-Tuning#23,
    # open_clip#916, flashinfer#1914: the first six raised on CPU; one backend gave garbage.
    x = torch.randn(6, 6).to(x_dtype)
    weight = None if weight_dtype is None else torch.randn(6).to(weight_dtype)
    bias = None if bias_dtype is None else torch.randn(6).to(bias_dtype)
    if norm.impl == "cpu" and weight_dtype is F64:  # a kernel would have to round it
        with pytest.raises(ImplError):
            norm(x, weight, bias)
        return
    y = norm(x, weight, bias)
    assert y.dtype == x_dtype
    check_output(norm, y, x, weight, bias)


@every_layer
@pytest.mark.parametrize("dtype", [F16, BF16, F32], ids=str)
@pytest.mark.parametrize("autocast", [F16, BF16], ids=str)
def test_autocast_changes_nothing(name: str, dtype: torch.dtype, autocast: torch.dtype) -> None:
    # pytorch#188955, #191126, TransformerEngine#371, lightning-thunder#1713: which dtype comes out
    # under autocast differs by version and device. Here: that of the input, and the same numbers.
    layer, x = make(name).eval(), sample(name, dtype)
    with torch.autocast("cpu", autocast):
        y = layer(x)
    assert y.dtype == dtype
    assert torch.equal(y, layer(x))
    x.requires_grad_()
    with torch.autocast("cpu", autocast):  # the backward too, which checkpointing runs inside
        y = layer.train()(x)
        y.backward(sample(name, dtype))
    assert y.dtype == dtype
    assert x.grad is not None
    assert x.grad.dtype == dtype


@every_row_norm
@pytest.mark.parametrize(("dtype", "autocast"), [(F16, BF16), (BF16, F16), (F32, BF16)], ids=str)
def test_autocast_of_a_large_input(
    norm: RowNorm, dtype: torch.dtype, autocast: torch.dtype
) -> None:
    # The same for rows that do not fit into one piece of work.
    x = torch.randn(4, 40000).to(dtype).requires_grad_()
    with torch.autocast("cpu", autocast):
        y = norm(x)
        y.backward(torch.randn(4, 40000).to(dtype))
    assert y.dtype == dtype
    assert torch.equal(y, norm(x))


@token_norm
@pytest.mark.parametrize(
    "shape", [4, (4,), [4], torch.Size([4]), np.int64(4), (np.int32(4),)], ids=repr
)
def test_ways_to_write_a_shape(name: str, shape: Any) -> None:
    # ivy#19665, pytorch#78444: numpy integers stayed inside the tuple.
    layer = getattr(normkit, name)(shape)
    assert layer.normalized_shape == (4,)
    assert type(layer.normalized_shape[0]) is int
    assert "np.int" not in repr(layer)
    assert layer(torch.randn(2, 4)).shape == (2, 4)


@token_norm
def test_no_shape_at_all(name: str) -> None:
    # cse234-w25-PA#1.
    text = f"{name}: normalized_shape must name at least one axis; it is (). "
    with pytest.raises(ShapeError, match=re.escape(text)):
        getattr(normkit, name)(())


NO_AXES = {
    "LayerNorm": "layer_norm: the last axis of x must be 4; x is ().",
    "RMSNorm": "rms_norm: the last axis of x must be 4; x is ().",
    "BatchNorm1d": "BatchNorm1d: x must be (B, C) or (B, C, T); x is ().",
    "BatchNorm2d": "BatchNorm2d: x must be (B, C, H, W); x is ().",
    "BatchNorm3d": "BatchNorm3d: x must be (B, C, D, H, W); x is ().",
    "MaskedBatchNorm": "batch_norm: channel_axis must be an axis of x, which has 0; it is -1.",
}


@pytest.mark.parametrize(("name", "text"), NO_AXES.items())
def test_input_without_axes(name: str, text: str) -> None:
    # pytorch#78444.
    with pytest.raises(ShapeError, match=f"^{re.escape(text)}"):
        make(name)(torch.tensor(1.0))


def test_channel_axis_that_x_does_not_have() -> None:
    # The same for the one layer that is told its axis: no IndexError.
    text = "batch_norm: channel_axis must be an axis of x, which has 1; it is -2."
    with pytest.raises(ShapeError, match=f"^{re.escape(text)}$"):
        normkit.MaskedBatchNorm(4, channel_axis=-2)(torch.randn(4))


@every_norm
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool], ids=str)
def test_integer_input(name: str, dtype: torch.dtype) -> None:
    # pytorch#78444: token ids or uint8 images, answered with the name of an internal kernel.
    text = f"norm: x must be a floating-point tensor; x is {dtype}. Try x.float()."
    for layer in (make(name), make(name).eval()):
        with pytest.raises(DtypeError, match=f"{re.escape(text)}$") as caught:
            layer(torch.ones(SHAPES[name], dtype=dtype))
        assert isinstance(caught.value, TypeError)


@every_batch_norm
def test_counter_and_partial_loads(name: str) -> None:
    # pytorch#110361, #6445, #15298: a partial load overwrote the counter, old files lack it.
    layer = make(name)
    for _ in range(5):
        layer(sample(name))
    layer.load_state_dict({}, strict=False)
    layer.load_state_dict({"weight": torch.full((4,), 2.0)}, strict=False)
    assert layer.num_batches_tracked == 5
    assert layer.weight.tolist() == [2.0] * 4
    fresh = make(name)
    fresh.load_state_dict(dict(layer.state_dict()))  # no version beside it
    assert fresh.num_batches_tracked == 5
    assert torch.equal(fresh.running_var, layer.running_var)


@pytest.mark.parametrize("name", ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"])
def test_checkpoints_from_before_the_counter(name: str) -> None:
    # pytorch#6445, #15298.
    layer = make(name)
    state = layer.state_dict()
    del state["num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        layer.load_state_dict(state)
    layer.load_state_dict(dict(state))
    assert layer.num_batches_tracked == 0


@every_batch_norm
def test_momentum_none_and_momentum_zero(name: str) -> None:
    # pytorch#30440, inplace_abn#130: None is the mean of all batches, 0 moves nothing.
    layer, still = make(name, momentum=None, dtype=F64), make(name, momentum=0.0, dtype=F64)
    batches = [2 + sample(name, F64) for _ in range(7)]
    channels = -1 if name == "MaskedBatchNorm" else 1
    rows = [x.movedim(channels, 0).flatten(1) for x in batches]
    for x in batches:
        assert torch.equal(layer(x), still(x))
    for buffer, each in (
        ("running_mean", [r.mean(1) for r in rows]),
        ("running_var", [r.var(1) for r in rows]),
    ):
        wanted = torch.stack(each).mean(0)
        torch.testing.assert_close(layer.get_buffer(buffer), wanted, rtol=1e-12, atol=1e-12)
        assert torch.equal(still.get_buffer(buffer), make(name, dtype=F64).get_buffer(buffer))
    assert layer.num_batches_tracked == still.num_batches_tracked == 7


@every_norm
@pytest.mark.parametrize("zero_centred", [False, True])
def test_meta_device_then_reset(name: str, zero_centred: bool) -> None:
    # TransformerEngine#2528, llm-foundry#1745, OLMo-core#698, dinov2#476: to_empty leaves garbage,
    # and constants kept as buffers are lost.
    options = {"zero_centred": True} if zero_centred and name not in BATCHES else {}
    with torch.device("meta"):
        layer = make(name, **options)
    layer.to_empty(device="cpu")
    for tensor in layer.state_dict().values():
        tensor.fill_(7)
    layer.reset_parameters()
    wanted: dict[str, float] = {"weight": 0.0 if options else 1.0}
    if name != "RMSNorm":
        wanted["bias"] = 0.0
    if name in BATCHES:
        wanted |= {"running_mean": 0.0, "running_var": 1.0, "num_batches_tracked": 0.0}
    assert {key: set(t.flatten().tolist()) for key, t in layer.state_dict().items()} == {
        key: {value} for key, value in wanted.items()
    }
    assert set(dict(layer.named_buffers())) == set(wanted) - {"weight", "bias"}


@every_layer
@pytest.mark.parametrize("bias", [False, True])
def test_weight_and_bias_always_have_a_name(name: str, bias: bool) -> None:
    # pytorch#101683, #116385, apex#403, #133, Model-Optimizer#208, ComfyUI-MultiGPU#152: other code
    # reads norm.weight.is_meta, or norm.bias of a norm that has none.
    layer = make(name, bias=bias)
    assert (layer.bias is not None) == (bias and name != "NoNorm")
    assert (layer.weight is not None) == (name != "NoNorm")
    option = "affine" if name in BATCHES else "elementwise_affine"
    bare = make(name, **{option: False})
    assert bare.weight is None
    assert bare.bias is None
    assert bare(sample(name)).shape == SHAPES[name]


def exported_call(layer: nn.Module, x: Tensor) -> tuple[Any, nn.Module]:
    """The one node of ours in an exported graph, and the program as a module."""
    program = torch.export.export(layer, (x,))
    (node,) = (n for n in program.graph.nodes if "normkit" in str(n.target))
    return node, program.module()


@token_norm
def test_a_half_module_with_a_small_eps_exports(name: str) -> None:
    # pytorch#32282, #84563, #86580, NVIDIA/TensorRT#4493, pytorch/TensorRT#4061,
    # onnxruntime#25855, #3768, #17689, #4293: decomposed,
    # squares overflow in float16 and eps is rounded to 0. Here one op keeps eps as a float.
    layer = make(name, eps=1e-12).half()
    x = torch.tensor([[0.0] * 4, [1e-4, -1e-4] * 2, [6e4, -6e4] * 2]).half()
    node, program = exported_call(layer, x)
    (eps,) = (a for a in node.args if isinstance(a, float))
    assert eps == 1e-12
    y = program(x)
    assert y.tolist() == [[0.0] * 4, [1.0, -1.0] * 2, [1.0, -1.0] * 2]
    assert torch.equal(y, layer(x))


def test_normalized_shape_from_the_input_exports() -> None:
    # pytorch#32282: layer_norm(x, x.shape[1:]) had no constant shape to export.
    class Whole(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return functional.layer_norm(x, x.shape[1:])

    x = torch.randn(2, 3, 4)
    node, program = exported_call(Whole(), x)
    assert 2 in node.args  # two axes
    torch.testing.assert_close(program(x), nn.functional.layer_norm(x, (3, 4)))


@every_batch_norm
@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_statistics_of_a_half_module(name: str, dtype: torch.dtype) -> None:
    # coreai-torch#54, pytorch#75478, torchtitan#674, pytorch-lightning#18802, apex#121, #133: a
    # variance above 65504 became inf in float16, and the output NaN.
    layer = make(name)
    layer.running_var.fill_(1e5)
    layer.to(dtype).eval()
    x = torch.full(SHAPES[name], 6e4).to(dtype)
    want = x.double() / (1e5 + 1e-5) ** 0.5
    assert layer.running_var.tolist() == [1e5] * 4
    torch.testing.assert_close(layer(x).double(), want, rtol=torch.finfo(dtype).eps, atol=0)
    layer.train()(x * torch.randn(SHAPES[name]).sign().to(dtype))
    assert all(b.isfinite().all() for b in layer.buffers())
    assert layer.running_var.dtype == torch.float32


def test_torchs_half_module_loses_its_variance() -> None:
    # The same reports: why ours does not let .half() touch the statistics.
    theirs = nn.BatchNorm1d(4)
    theirs.running_var.fill_(1e5)
    assert theirs.half().running_var.isinf().all()
