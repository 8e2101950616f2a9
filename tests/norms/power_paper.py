"""PowerNorm of the paper (arXiv:2003.07845), written out once more: one step after the other."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Paper:
    """The recursion on the real tokens alone, in float64, without the group scaling.

    Attributes:
        channels: how many.
        alpha_forward, alpha_backward: weights of the old values.
        warmup: how many first steps use the batch and its exact gradient (PN-V).
        eps: added to psi^2.
        square, nu: psi^2 and the backward statistic.
        step: how many forward passes there were.
    """

    channels: int
    alpha_forward: float = 0.9
    alpha_backward: float = 0.9
    warmup: int = 0
    eps: float = 1e-5
    square: Tensor = field(init=False)
    nu: Tensor = field(init=False)
    step: int = 0

    def __post_init__(self) -> None:
        """psi 1, nu 0."""
        self.square = torch.ones(self.channels, dtype=torch.float64)
        self.nu = torch.zeros(self.channels, dtype=torch.float64)

    def advance(self, x_NC: Tensor, dx_hat_NC: Tensor) -> tuple[Tensor, Tensor]:
        """(x_hat, dx) of one step, given tokens and the gradient of x_hat."""
        batch = (x_NC * x_NC).mean(0)
        warm = self.step < self.warmup
        psi = ((batch if warm else self.square) + self.eps).sqrt()
        x_hat = x_NC / psi
        gamma = (x_hat * x_hat).mean(0)
        lam = (dx_hat_NC * x_hat).mean(0)
        dx = (dx_hat_NC - (lam if warm else self.nu) * x_hat) / psi
        if warm:
            self.square = batch if self.step == 0 else self._cumulative(batch)
        else:
            self.square = self.alpha_forward * self.square + (1 - self.alpha_forward) * batch
        beta = 1 - self.alpha_backward
        self.nu = self.nu * (1 - beta * gamma) + beta * lam
        self.step += 1
        return x_hat, dx

    def _cumulative(self, batch: Tensor) -> Tensor:
        return (self.square * self.step + batch) / (self.step + 1)
