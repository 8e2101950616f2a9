"""The norm modules of Hugging Face's transformers."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from torch import nn

from normkit.benchmark.peers.in_torch import leaves, made
from normkit.benchmark.peers.peer import Peer
from normkit.benchmark.task import Bound, Task

MODULES = {
    "rms_norm": ("llama", "LlamaRMSNorm"),
    "gated_rms_norm": ("qwen3_next", "Qwen3NextRMSNormGated"),
}


class TransformersPeer(Peer):
    """LlamaRMSNorm and Qwen3NextRMSNormGated, as their models call them."""

    name = "transformers"
    needs = ("transformers",)
    modules = ("transformers",)

    def bind(self, task: Task) -> Bound | None:
        """Build the module, and give it the task's weight."""
        if task.op.name not in MODULES:
            return None
        model, kind = MODULES[task.op.name]
        code = import_module(f"transformers.models.{model}.modeling_{model}")
        module: Any = made(getattr(code, kind)(task.shape[-1], eps=1e-6), task)
        if task.mode != "module":
            weight = task.inputs["weight"]
            module.weight = weight if isinstance(weight, nn.Parameter) else nn.Parameter(weight)
        streams = [t for name, t in task.inputs.items() if name != "weight"]
        return Bound(call=functools.partial(module, *streams), leaves=leaves(task))
