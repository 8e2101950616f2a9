"""What norm_linear keeps and costs beside a norm and a linear layer (docs/norm_linear.md).

    python benchmarks/norm_linear_memory.py [--tokens T] [--width N] [--out K] [--threads N]
        [--dtype float32] [--norm layer_norm rms_norm]

- saved: bytes that autograd keeps beside x and the parameters.
- peak: resident memory above that before the first layer, at its highest during forward and
  backward of a stack of layers, each in a process of its own. Each layer's linear output goes
  through a mean over its parts, so that nothing of that size stays.
- time: forward and backward of one layer, the median of rounds in which both take turns.
"""

from __future__ import annotations

import argparse
import multiprocessing
import threading
import time
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn

import normkit
from normkit.measure import saved_bytes

LAYERS = 8
ROUNDS = 9
MiB = 2**20


class Apart(nn.Module):
    """The two modules, called one after the other."""

    def __init__(self, norm: nn.Module, linear: nn.Module) -> None:
        """Take both."""
        super().__init__()
        self.norm, self.linear = norm, linear

    def forward(self, x: Tensor) -> Tensor:
        """Call both."""
        return self.linear(self.norm(x))


def layer(kind: str, norm: str, sizes: argparse.Namespace) -> nn.Module:
    """One layer, fused or apart."""
    made = normkit.NormLinear(sizes.width, sizes.out, norm=norm)
    return made if kind == "fused" else Apart(made.norm, made.linear)


def stack(kind: str, norm: str, dtype: torch.dtype, sizes: argparse.Namespace) -> float:
    """Peak of resident memory over a residual stack's forward and backward pass, in MiB."""
    torch.set_num_threads(sizes.threads)
    layers = [layer(kind, norm, sizes).to(dtype) for _ in range(LAYERS)]
    for one in layers:
        for parameter in one.parameters():
            parameter.grad = torch.zeros_like(parameter)
    x = torch.randn(sizes.tokens, sizes.width, dtype=dtype, requires_grad=True)
    for _ in range(2):  # the first round loads what torch loads late
        gone, highest = threading.Event(), [resident()]
        start = highest[0]
        watch = threading.Thread(target=watcher, args=(gone, highest))
        watch.start()
        h = x
        for one in layers:
            h = h + one(h).unflatten(-1, (sizes.width, -1)).mean(-1)
        h.sum().backward()
        gone.set()
        watch.join()
    return highest[0] - start


def watcher(gone: threading.Event, highest: list[float]) -> None:
    """Keep the highest value of resident memory."""
    while not gone.wait(0.001):
        highest[0] = max(highest[0], resident())


def resident() -> float:
    """Resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / MiB


def times(norm: str, dtype: torch.dtype, sizes: argparse.Namespace) -> dict[str, float]:
    """Median milliseconds of forward and backward, taking turns."""
    made = {kind: layer(kind, norm, sizes).to(dtype) for kind in ("apart", "fused")}
    x = torch.randn(sizes.tokens, sizes.width, dtype=dtype, requires_grad=True)
    dout = torch.randn(sizes.tokens, sizes.out, dtype=dtype)
    taken: dict[str, list[float]] = {kind: [] for kind in made}
    for _ in range(ROUNDS):
        for kind, one in made.items():
            start = time.perf_counter()
            one(x).backward(dout)
            taken[kind].append(1e3 * (time.perf_counter() - start))
    return {kind: median(values[2:]) for kind, values in taken.items()}


def main() -> None:
    """Print a row of each norm, dtype and way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--out", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--norm", nargs="+", default=("layer_norm", "rms_norm"))
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    sizes = parser.parse_args()
    torch.set_num_threads(sizes.threads)
    where = f"{sizes.dtype}, {sizes.threads} threads"
    print(f"x ({sizes.tokens}, {sizes.width}) -> {sizes.out}, {where}")
    print(f"norm        how    saved MiB  peak of {LAYERS} layers MiB  time ms")
    fresh = multiprocessing.get_context("spawn")
    for norm in sizes.norm:
        dtype = getattr(torch, sizes.dtype)
        x = torch.randn(sizes.tokens, sizes.width, dtype=dtype, requires_grad=True)
        time_ms = times(norm, dtype, sizes)
        for kind in ("apart", "fused"):
            kept = saved_bytes(layer(kind, norm, sizes).to(dtype), x).new / MiB
            with fresh.Pool(1) as pool:
                peak = pool.apply(stack, (kind, norm, dtype, sizes))
            row = f"{norm:11} {kind:6} {kept:9.1f} {peak:22.0f} {time_ms[kind]:10.0f}"
            print(row, flush=True)


if __name__ == "__main__":
    main()
