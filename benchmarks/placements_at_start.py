"""What each placement does to a deep model before its first step: the tables of docs/placements.

    python benchmarks/placements_at_start.py [PLACEMENT ...]

A causal model of 64 features, 4 heads and 256 features inside the feed-forward (GELU) sees one
batch of random tokens and random targets; no training. Means over 4 seeds, for 2, 8 and 32 layers:

- growth: mean square of the residual stream after the last block, before a final norm (it starts
  at 1 where tokens have unit scale); with two streams, that of the one that is not normalised;
- first, last: norm of the gradient of the second feed-forward matrix, in layer 1 and in layer L.
"""

from __future__ import annotations

import argparse
from statistics import mean

import torch
import torch.nn.functional as F
from torch import Tensor

from normkit.blocks import CausalLM, TransformerConfig
from normkit.spec import PLACEMENTS

DEPTHS = (2, 8, 32)
SEEDS = range(4)


def start(placement: str, depth: int, seed: int) -> tuple[float, float, float]:
    """Give growth, first and last of one model."""
    torch.manual_seed(seed)
    config = TransformerConfig(vocabulary=100, width=64, depth=depth, placement=placement)
    model = CausalLM(config)
    after: list[Tensor] = []
    last = model.transformer.blocks[-1]
    last.register_forward_hook(lambda module, inputs, output: after.append(unnormalised(output)))
    tokens, targets = torch.randint(100, (2, 8, 32))
    F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()).backward()
    first, last = (
        float(model.transformer.blocks[layer].ffn.second.weight.grad.norm()) for layer in (0, -1)
    )
    return float(after[0].detach().square().mean()), first, last


def unnormalised(output: Tensor | tuple[Tensor, Tensor]) -> Tensor:
    """Pick the stream that only adds up."""
    return output if isinstance(output, Tensor) else output[1]


def main() -> None:
    """Print a row of each placement and depth."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("placement", nargs="*")
    torch.set_num_threads(1)
    print("placement     L   growth      first       last")
    for placement in parser.parse_args().placement or PLACEMENTS:
        for depth in DEPTHS:
            runs = [start(placement, depth, seed) for seed in SEEDS]
            growth, first, last = (mean(values) for values in zip(*runs, strict=True))
            print(f"{placement:11} {depth:3} {growth:8.3g} {first:10.3g} {last:10.3g}", flush=True)


if __name__ == "__main__":
    main()
