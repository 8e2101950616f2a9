"""One model in training: the update, the evaluation, and the whole state as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normkit.lab.config import RunConfig
from normkit.lab.model import batch_statistics, build_model, uses_batch_statistics
from normkit.lab.task import IGNORED, Batch, TextTask, stream_seed

EVALUATION_BATCH = 32


class Trainer:
    """A model, its optimiser and how far it got.

    Attributes:
        step: updates made.
        tokens: characters trained on; pads are not counted.

    Example:
        >>> from normkit.lab import RunConfig, Text, TaskSpec, TextTask
        >>> task = TextTask(Text("abc", None, "abc" * 50), TaskSpec(length=8))
        >>> config = RunConfig(norm="rms_norm", placement="pre", depth=1, task=task.spec)
        >>> trainer = Trainer(config, task)
        >>> loss, gradient_norm = trainer.update()
        >>> trainer.step, trainer.tokens, loss.shape
        (1, 256, torch.Size([]))
    """

    def __init__(self, config: RunConfig, task: TextTask) -> None:
        """Start from the initial weights of the run's seed."""
        self.config = config
        self.task = task
        self.model = build_model(config, task.vocabulary)
        self.optimiser = _optimiser(self.model, config)
        self.step = 0
        self.tokens = 0
        self._parameters = list(self.model.parameters())

    def update(self) -> tuple[Tensor, Tensor | None]:
        """Take one step; return the batch's loss and, where it is clipped, the gradient's norm.

        Both stay tensors: the loop reads them once an interval.
        """
        config, training = self.config, self.config.training
        batch = self.task.batch(config.batch_size, seed=config.seed, step=self.step)
        if config.model.dropout:
            torch.manual_seed(stream_seed(config.seed, "dropout", self.step))
        for group in self.optimiser.param_groups:
            group["lr"] = config.lr * min(1.0, (self.step + 1) / max(training.warmup_steps, 1))
        self.optimiser.zero_grad(set_to_none=True)
        loss = self._backward(batch)
        norm = None
        if training.clip_norm is not None:
            norm = nn.utils.clip_grad_norm_(self._parameters, training.clip_norm)
        self.optimiser.step()
        self.step += 1
        self.tokens += batch.characters
        return loss, norm

    def evaluate(self) -> dict[str, float]:
        """Loss on the fixed validation sequences, by split.

        ``validation_batch_statistics`` exists where the norm shares statistics over the batch; it
        uses batches of the training size, the only one whose statistics the model knows.
        """
        self.model.eval()
        losses = {"validation": self._mean_loss(self.task.validation(EVALUATION_BATCH))}
        if uses_batch_statistics(self.config.norm):
            with batch_statistics(self.model):
                batches = self.task.validation(self.config.batch_size)
                losses["validation_batch_statistics"] = self._mean_loss(batches)
        self.model.train()
        return losses

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on."""
        return {
            "step": self.step,
            "tokens": self.tokens,
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "rng": torch.get_rng_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state_dict`."""
        self.step, self.tokens = state["step"], state["tokens"]
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        torch.set_rng_state(state["rng"])

    def _backward(self, batch: Batch) -> Tensor:
        """Sum over the pieces of a batch; each is weighed by its characters, not by its rows."""
        pieces = _pieces(batch, self.config.training.accumulation)
        total = torch.zeros((), dtype=torch.float64)
        for piece in pieces:
            loss = self._summed_loss(piece) / batch.characters
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return total

    def _mean_loss(self, batches: Iterable[Batch]) -> float:
        total, count = 0.0, 0
        with torch.inference_mode():
            for batch in batches:
                total += self._summed_loss(batch).item()
                count += batch.characters
        return total / count

    def _summed_loss(self, batch: Batch) -> Tensor:
        with _autocast(self.config.dtype):
            logits_BTV = self.model(batch.tokens_BT, batch.valid_BT)
        logits_NV = logits_BTV.flatten(0, 1)
        wide = logits_NV.float() if logits_NV.dtype == torch.bfloat16 else logits_NV
        targets_N = batch.targets_BT.flatten()
        return F.cross_entropy(wide, targets_N, ignore_index=IGNORED, reduction="sum")


def _optimiser(model: nn.Module, config: RunConfig) -> torch.optim.AdamW:
    spec = config.training
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": spec.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    # One fused call per group: a deep narrow model has hundreds of tiny parameters.
    return torch.optim.AdamW(groups, lr=config.lr, betas=spec.betas, fused=True)


def _autocast(dtype: str) -> AbstractContextManager[object]:
    return torch.autocast("cpu", torch.bfloat16) if dtype == "bfloat16" else nullcontext()


def _pieces(batch: Batch, accumulation: int) -> list[Batch]:
    if accumulation == 1:
        return [batch]
    tokens, targets = batch.tokens_BT.chunk(accumulation), batch.targets_BT.chunk(accumulation)
    valid = [None] * accumulation if batch.valid_BT is None else batch.valid_BT.chunk(accumulation)
    pieces = zip(tokens, targets, valid, strict=True)
    return [Batch(*piece, int((piece[1] != IGNORED).sum())) for piece in pieces]
