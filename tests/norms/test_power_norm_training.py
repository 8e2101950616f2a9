"""PowerNorm over thousands of steps: it stays finite, with and without the group scaling."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import normkit


@pytest.mark.slow
@pytest.mark.parametrize("groups", [None, 1], ids=["no-groups", "groups"])
def test_5000_steps_stay_finite(groups: int | None) -> None:
    # sIncerass/powernorm#2, #9: the running backward statistic shrank until NaN after thousands
    # of steps, and without the group scaling after 1-3 thousand.
    norm = normkit.PowerNorm(4, warmup=100, groups=groups)
    model = nn.Sequential(nn.Linear(4, 4), norm, nn.ReLU(), nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    target = torch.randn(4, 4)
    losses, products, empty = [], [], 0
    for step in range(5000):
        x = torch.randn(4, 3, 4)
        valid = torch.arange(3) < torch.randint(0, 4, (4, 1))  # some rows are padding alone
        valid &= step % 50 != 0  # and some batches
        empty += not valid.any()
        with normkit.valid(valid):
            error = model(x) - x @ target
        loss = (error.square().mean(-1) * valid).sum() / valid.sum().clamp(min=1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        products.append(norm.running_product.clone())
    assert all(t.isfinite().all() for t in (*model.parameters(), *model.buffers(), *losses))
    assert norm.num_batches_tracked == 5000 - empty
    assert torch.stack(products[-1000:]).abs().amax() > 1e-4  # it has not died down
    assert sum(losses[-500:]) < 0.9 * sum(losses[:500])  # it learns
