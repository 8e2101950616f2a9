"""From a run's configuration to its model, and the two ways to evaluate a batch-statistics norm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from normkit.blocks import CausalLM, TransformerConfig
from normkit.lab.config import RunConfig
from normkit.lab.task import stream_seed
from normkit.layers import MaskedBatchNorm
from normkit.spec import NormSpec, norm_entry


def build_model(config: RunConfig, vocabulary: int) -> CausalLM:
    """Build the model with the initial weights of the run's seed.

    Norms draw no random numbers, so runs of one seed that differ in the norm alone start from the
    same weights: their difference is the norm's.
    """
    torch.manual_seed(stream_seed(config.seed, "init"))
    model = CausalLM(transformer_config(config, vocabulary))
    return model.double() if config.dtype == "float64" else model


def transformer_config(config: RunConfig, vocabulary: int) -> TransformerConfig:
    """Translate a run's configuration into the model's."""
    spec = config.model
    return TransformerConfig(
        vocabulary=vocabulary,
        width=spec.width,
        depth=config.depth,
        heads=spec.heads,
        ffn_width=spec.ffn_width,
        max_length=config.task.length,
        norm=config.norm,
        placement=config.placement,
        positions=spec.positions,
        activation=spec.activation,
        dropout=spec.dropout,
    )


def uses_batch_statistics(norm: str) -> bool:
    """Say whether samples share statistics while this norm trains.

    Example:
        >>> uses_batch_statistics("batch_norm"), uses_batch_statistics("layer_norm")
        (True, False)
    """
    spec = norm_entry(norm).spec
    parts = (spec,) if isinstance(spec, NormSpec) else spec
    return any(part.stats.train == "batch" for part in parts)


@contextmanager
def batch_statistics(model: nn.Module) -> Iterator[None]:
    """Let the norms of a model in eval mode use the batch's statistics, as they do in training.

    Running statistics are what they were before when the block ends.
    """
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm | MaskedBatchNorm)]
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    for norm in norms:
        norm.train()
    try:
        yield
    finally:
        for norm in norms:
            norm.eval()
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                buffer.copy_(before[name])
