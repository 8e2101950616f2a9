"""The same models written by hand: straight lines of plain torch, one step per placement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from normkit.blocks import TransformerConfig

Parameters = Mapping[str, Tensor]
Branch = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class At:
    """Where a step stands: its norms and learned numbers by name, and what depth sets."""

    branch: str
    norm: Callable[[str, Tensor], Tensor]
    learned: Callable[[str], Tensor]
    alpha: float


def post(x: Tensor, f: Branch, at: At) -> Tensor:
    """x <- N(x + f(x))."""
    return at.norm("norm_sum", x + f(x))


def pre(x: Tensor, f: Branch, at: At) -> Tensor:
    """x <- x + f(N(x)); in Sub-LN there is a norm inside f too."""
    return x + f(at.norm("norm_in", x))


def deepnorm(x: Tensor, f: Branch, at: At) -> Tensor:
    """x <- N(alpha x + f(x))."""
    return at.norm("norm_sum", at.alpha * x + f(x))


def sandwich(x: Tensor, f: Branch, at: At) -> Tensor:
    """x <- x + N2(f(N1(x)))."""
    return x + at.norm("norm_out", f(at.norm("norm_in", x)))


def normformer(x: Tensor, f: Branch, at: At) -> Tensor:
    """A second norm after self-attention alone; the feed-forward has its second inside."""
    return sandwich(x, f, at) if at.branch == "attention" else pre(x, f, at)


def layer_scale(x: Tensor, f: Branch, at: At) -> Tensor:
    """x <- x + diag(v) f(N(x))."""
    return x + at.learned("branch_scale") * f(at.norm("norm_in", x))


def rezero(x: Tensor, f: Branch, at: At) -> Tensor:
    """x <- x + a f(x)."""
    return x + at.learned("branch_scale") * f(x)


STEPS = {
    "post": post, "pre": pre, "deepnorm": deepnorm, "sandwich": sandwich, "peri": sandwich,
    "sub_ln": pre, "normformer": normformer, "layer_scale": layer_scale, "rezero": rezero,
}  # fmt: skip
PLACEMENTS = (*STEPS, "residual")
EMBEDDING_NORM = ("peri",)
FINAL_NORM = ("pre", "sandwich", "peri", "sub_ln", "normformer", "residual", "layer_scale")
NORM_INSIDE = {"sub_ln": ("attention", "ffn"), "normformer": ("ffn",)}
HEAD_SCALE = ("normformer",)


def hidden(
    p: Parameters,
    config: TransformerConfig,
    tokens: Tensor,
    valid: Tensor,
    *,
    causal: bool,
    memory: tuple[Tensor, Tensor] | None = None,
    alpha: float | None = None,
) -> Tensor:
    """Compute what a stack returns, from parameters by name.

    ``memory`` is (hidden, valid) of an encoder; ``alpha`` is DeepNorm's, by default a single
    stack's.
    """
    assert isinstance(config.placement, str)
    numbers = torch.tensor([[max(sum(row[: t + 1]) - 1, 0) for t in range(len(row))]
                            for row in valid.tolist()])  # fmt: skip
    x = p["tokens.weight"][tokens] + p["positions.weight"][numbers]
    if config.placement in EMBEDDING_NORM:
        x = norm(p, "embedding_norm", x, valid, config.norm)
    s = x
    for index in range(config.depth):
        for branch in ("attention", "ffn") if memory is None else BRANCHES:
            block = Layer(p, config, f"blocks.{index}.", valid, causal, memory)
            f = block.branch(branch)
            at = block.at(branch, (2 * config.depth) ** 0.25 if alpha is None else alpha)
            if config.placement == "residual":  # z <- N(z + f(z)), s <- s + f(z)
                s = s + f(x)
                x = post(x, f, at)
            else:
                x = STEPS[config.placement](x, f, at)
    if config.placement == "residual":
        return x + norm(p, "final_norm", s, valid, config.norm)
    if config.placement in FINAL_NORM:
        x = norm(p, "final_norm", x, valid, config.norm)
    return x


BRANCHES = ("attention", "cross_attention", "ffn")


@dataclass(frozen=True)
class Layer:
    """One layer of a stack, from parameters by name."""

    p: Parameters
    config: TransformerConfig
    prefix: str
    valid: Tensor
    causal: bool
    memory: tuple[Tensor, Tensor] | None

    def branch(self, name: str) -> Branch:
        """Give the branch as a function of x."""
        run = {"attention": self.attention, "cross_attention": self.cross, "ffn": self.ffn}
        return run[name]

    def at(self, branch: str, alpha: float) -> At:
        """Give the norms and numbers around a branch."""
        around = f"{self.prefix}around_{branch}."
        return At(
            branch=branch,
            norm=lambda place, x: norm(self.p, around + place, x, self.valid, self.config.norm),
            learned=lambda name: self.p[around + name],
            alpha=alpha,
        )

    def inside(self, branch: str, x: Tensor) -> Tensor:
        """Apply the norm before the last matrix where the placement has one."""
        if branch not in NORM_INSIDE.get(str(self.config.placement), ()):
            return x
        place = f"{self.prefix}{branch}.norm_inside"
        return norm(self.p, place, x, self.valid, self.config.norm)

    def linear(self, name: str, x: Tensor) -> Tensor:
        """W x + b."""
        return x @ self.p[f"{self.prefix}{name}.weight"].T + self.p[f"{self.prefix}{name}.bias"]

    def attention(self, x: Tensor) -> Tensor:
        """softmax(Q K^T / sqrt(d)) V of the tokens themselves."""
        T = x.shape[1]
        allowed = torch.tensor(
            [[[s == t or (bool(row[s]) and (s < t or not self.causal)) for s in range(T)]
              for t in range(T)] for row in self.valid]
        )  # fmt: skip
        y = heads(*self.linear("attention.qkv", x).chunk(3, -1), allowed, self.config.heads)
        if self.config.placement in HEAD_SCALE:
            scale = self.p[f"{self.prefix}attention.head_scale"]
            y = y * scale.repeat_interleave(self.config.width // self.config.heads)
        return self.linear("attention.output", self.inside("attention", y))

    def cross(self, x: Tensor) -> Tensor:
        """The same with keys and values of the encoder's real tokens."""
        assert self.memory is not None
        source, real = self.memory
        allowed = real[:, None, :].expand(-1, x.shape[1], -1)
        k, v = self.linear("cross_attention.key_value", source).chunk(2, -1)
        y = heads(self.linear("cross_attention.query", x), k, v, allowed, self.config.heads)
        return self.linear("cross_attention.output", y)

    def ffn(self, x: Tensor) -> Tensor:
        """W2 gelu(W1 x + b1) + b2, with gelu(z) = z Phi(z)."""
        z = self.linear("ffn.first", x)
        z = z * 0.5 * (1 + torch.erf(z / 2**0.5))
        return self.linear("ffn.second", self.inside("ffn", z))


def heads(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, count: int) -> Tensor:
    """softmax(Q K^T / sqrt(d)) V, head by head and row by row."""
    d = q.shape[-1] // count
    rows = []
    for b in range(q.shape[0]):
        outs = []
        for h in range(count):
            at = slice(h * d, h * d + d)
            scores = q[b, :, at] @ k[b, :, at].T / d**0.5
            outs.append(scores.masked_fill(~allowed[b], -torch.inf).softmax(-1) @ v[b, :, at])
        rows.append(torch.cat(outs, -1))
    return torch.stack(rows)


def norm(p: Parameters, place: str, x: Tensor, valid: Tensor, name: str) -> Tensor:
    """Apply the norm's formula, in training, with the parameters that stand at ``place``."""
    if name == "no_norm":
        return x
    weight = p[place + ".norm.weight"]
    if name == "rms_norm":
        return x / (x.square().mean(-1, keepdim=True) + torch.finfo(x.dtype).eps).sqrt() * weight
    bias = p[place + ".norm.bias"]
    if name == "layer_norm":
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight + bias
    rows = x[valid] if name == "masked_batch_norm" else x.flatten(0, 1)
    mean = rows.mean(0)
    y = (x - mean) / ((rows - mean).square().mean(0) + 1e-5).sqrt() * weight + bias
    return y * valid[..., None] if name == "masked_batch_norm" else y
