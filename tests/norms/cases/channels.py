"""GroupNorm, InstanceNorm, LayerNorm over channels."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn

import normkit
from tests.norms.cases.case import Case, built, lengths, nothing


def real_positions(shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """A mask (B, *space) for x (B, C, *space): all of the first sample, then one, two ..."""
    B, space = shape[0], shape[2:]
    (mask,) = lengths((B, math.prod(space)))
    return (mask.reshape(B, *space),)


def _group(
    name: str, layer: str, *args: Any, shape: tuple[int, ...], masked: bool = False, **rest: Any
) -> Case:
    """A norm over groups of channels."""
    training, tracks = rest.pop("training", True), rest.get("track_running_stats", False)
    return Case(
        name=name,
        build=built(name, getattr(normkit, layer), *args, **rest),
        shape=shape,
        op="group_norm" if training or not tracks else "batch_norm_given",
        others=real_positions if masked else nothing,
        coupled=training and tracks,  # by the running statistics alone
        twin=None if masked else built(name, getattr(nn, layer), *args, **rest),
        training=training,
        image=len(shape) == 4,
    )


def _channel(name: str, shape: tuple[int, ...], **rest: Any) -> Case:
    """LayerNorm over 4 channels."""
    return Case(
        name=name,
        build=built(name, normkit.ChannelLayerNorm, 4, **rest),
        shape=shape,
        op="channel_layer_norm",
        row=(4,) if rest.get("channel_axis") == -1 else None,
        image=len(shape) == 4,
        layout_bits=False,
    )


CASES: tuple[Case, ...] = (
    _group("group_norm", "GroupNorm", 2, 4, shape=(3, 4, 2)),
    _group("group_norm_image", "GroupNorm", 2, 4, shape=(2, 4, 1, 3), bias=False),
    _group("group_norm_masked", "GroupNorm", 1, 2, shape=(3, 2, 4), masked=True),
    _group("instance_norm", "InstanceNorm1d", 2, shape=(3, 2, 4)),
    _group("instance_norm_running", "InstanceNorm1d", 2, shape=(3, 2, 4), track_running_stats=True),
    _group(
        "instance_norm_eval",
        "InstanceNorm1d",
        2,
        shape=(3, 2, 4),
        affine=True,
        track_running_stats=True,
        training=False,
    ),
    _group(
        "instance_norm_masked",
        "InstanceNorm2d",
        2,
        shape=(3, 2, 2, 2),
        affine=True,
        track_running_stats=True,
        masked=True,
    ),
    _group("instance_norm_volume", "InstanceNorm3d", 2, shape=(3, 2, 2, 1, 2)),
    _channel("channel_layer_norm", (2, 4, 1, 3)),
    _channel(
        "channel_layer_norm_last",
        (2, 3, 4),
        channel_axis=-1,
        eps=0.1,
        eps_place="outside",
        zero_centred=True,
    ),
)
