"""BatchNorm, with and without a mask."""

from __future__ import annotations

from typing import Any

from torch import nn

import normkit
from tests.norms.cases.case import Case, built, lengths, nothing


def _batch(name: str, layer: str, shape: tuple[int, ...], **rest: Any) -> Case:
    """A norm over the batch; 3 channels."""
    training = rest.pop("training", True)
    masked = layer == "MaskedBatchNorm"
    return Case(
        name=name,
        build=built(name, getattr(normkit, layer), 3, **rest),
        shape=shape,
        op="batch_norm" if training else "batch_norm_given",
        others=lengths if masked else nothing,
        coupled=training,
        twin=None if masked else built(name, getattr(nn, layer), 3, **rest),
        training=training,
        image=layer == "BatchNorm2d",
    )


CASES: tuple[Case, ...] = (
    _batch("batch_norm", "BatchNorm1d", (5, 3)),
    _batch("batch_norm_sequence", "BatchNorm1d", (2, 3, 4), track_running_stats=False),
    _batch("batch_norm_eval", "BatchNorm1d", (5, 3), training=False),
    _batch("batch_norm_image", "BatchNorm2d", (2, 3, 4, 2), affine=False),
    _batch("batch_norm_volume", "BatchNorm3d", (2, 3, 2, 2, 2), track_running_stats=False),
    _batch("masked_batch_norm", "MaskedBatchNorm", (3, 4, 3), track_running_stats=False),
    _batch("masked_batch_norm_running", "MaskedBatchNorm", (3, 4, 3)),
    _batch("masked_batch_norm_eval", "MaskedBatchNorm", (3, 4, 3), training=False),
)
