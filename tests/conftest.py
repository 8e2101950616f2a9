"""What every test gets: one thread, a seed of its own, and reproducible hypothesis examples."""

from __future__ import annotations

import os
import random
import zlib
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch

from tests.browser import browser, show

__all__ = ["browser", "show"]  # fixtures, here once: a process can drive one browser


class TorchRandom:
    """torch's generator as hypothesis wants it: it seeds it before every example."""

    def seed(self, value: int) -> None:
        """Seed it."""
        torch.manual_seed(value)

    def getstate(self) -> Any:
        """Read its state."""
        return torch.get_rng_state()

    def setstate(self, state: Any) -> None:
        """Put a state back."""
        torch.set_rng_state(state)


_TORCH_RANDOM = TorchRandom()  # hypothesis holds it by a weak reference only
hypothesis.register_random(_TORCH_RANDOM)

# "same": the same examples on every run. HYPOTHESIS_PROFILE=search looks for new ones, longer.
# No deadlines: a busy machine is not a fault of the code.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.register_profile("search", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the slow tests: none is left to run alone at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(autouse=True)
def same_start(request: pytest.FixtureRequest) -> None:
    """Seed every generator from the test's own id, so that order and workers change nothing."""
    seed = zlib.crc32(request.node.nodeid.encode())
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # one worker, one thread
