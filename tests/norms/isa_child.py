"""Run with NORMKIT_CPU_ISA: the kernels of one instruction set within the bound; prints its name.

The allocator watches the ends of blocks here (see test_kernel_isas.py): writing beyond a tensor
ends the process.
"""

from __future__ import annotations

import torch

from normkit.kernels import cpu
from tests.norms.kernel_norms import KERNELS, parameters
from tests.norms.regimes import DTYPES, REGIMES
from tests.norms.row_norms import RowNorm, check


def main() -> None:
    """Every regime and dtype, widths around the lengths of vectors, blocks and chunks."""
    torch.manual_seed(0)
    torch.set_num_threads(2)
    print(cpu.isa())
    for norm in (RowNorm("layer_norm", "cpu"), RowNorm("rms_norm", "cpu")):
        for regime in REGIMES.values():
            for dtype in DTYPES:
                for width in (1, 13, 515):
                    x = regime(7, width, dtype)
                    dy = torch.randn(x.shape, dtype=torch.float64).to(dtype)
                    weight, bias = parameters(width, dtype)
                    check(norm, x, dy, weight, bias)
        for width in (*range(1, 34), 1030, 16385, 70001):
            for dtype in DTYPES:
                x, dy = (1 + torch.randn(2, 3, width)).to(dtype)
                KERNELS[norm.center ^ 1].all(x, dy, *parameters(width, dtype))


main()
