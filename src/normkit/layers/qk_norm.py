"""QKNorm: queries and keys of attention, normalised before their dot product."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from normkit import functional
from normkit.errors import OptionError, sentence
from normkit.functional.qk_norm import (
    QK_EPS,
    QKKind,
    QKOver,
    check_head_width,
    check_heads,
    check_qk_options,
    check_scale,
)
from normkit.layers.layer_norm import more_options
from normkit.layers.parameters import register_parameters
from normkit.layers.scale_norm import checked_width
from normkit.spec.norm import Rounding


class QKNorm(nn.Module):
    """Normalise queries and keys, each by itself: ``q, k = norm(q, k)``.

    Call it before rotary positions. What kind does to which axis, and who uses it, is in
    :func:`normkit.functional.qk_norm`. With ``kind="l2"`` the queries carry the learned scale, so
    attention must not scale again: ``scaled_dot_product_attention(q, k, v, scale=1.0)``.

    Args:
        head_width: d, features of a head.
        heads, kv_heads: heads of q, and of k where it has fewer; ``over="projection"`` needs them.
        kind: ``rms`` (Qwen 3, Gemma 3, OLMo 2), ``layer`` or ``l2`` (the first paper).
        over: ``head``, with one gain shared by the heads, or ``projection``: all heads of a token
            together, with a gain of its own for each of heads * head_width features (OLMo 2).
        eps: None is 1e-6, for ``l2`` 1e-12.
        learned: have gains, for ``l2`` learn the scale.
        bias: have biases (``layer`` and ``rms``).
        scale: for ``l2`` where the scale starts, or stays if not learned; None is
            sqrt(head_width). :func:`normkit.functional.scale_for_length` has the paper's.
        zero_centred: the gain is 1 + weight, and weight starts at 0 (Gemma 3).
        rounding: ``before_gain`` rounds to the dtype of q before the gain (Qwen 3's code).
        device, dtype: of the parameters.

    Shape:
        q (*, head_width) or (*, heads, T, head_width), k alike -> (q, k) of the same shapes and
        dtypes.

    Raises:
        ShapeError, DtypeError, OptionError: each with a sentence that says what to type.

    Source: Henry et al. 2020, arXiv:2010.04245 (l2); Dehghani et al. 2023, arXiv:2302.05442.

    Example:
        >>> q, k = QKNorm(2)(torch.tensor([3.0, 4.0]), torch.tensor([0.0, 5.0]))
        >>> q.detach(), k.detach()
        (tensor([0.8485, 1.1314]), tensor([0.0000, 1.4142]))
    """

    zero_centred: bool = False
    rounding: Rounding = "once"
    q_weight: nn.Parameter | None
    k_weight: nn.Parameter | None
    q_bias: nn.Parameter | None
    k_bias: nn.Parameter | None
    scale: nn.Parameter | None

    def __init__(
        self,
        head_width: int,
        heads: int | None = None,
        kv_heads: int | None = None,
        *,
        kind: QKKind = "rms",
        over: QKOver = "head",
        eps: float | None = None,
        learned: bool = True,
        bias: bool = False,
        scale: float | None = None,
        zero_centred: bool = False,
        rounding: Rounding = "once",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Create the parameters; see the class for the arguments."""
        super().__init__()
        check_qk_options("QKNorm", kind, over, zero_centred=zero_centred, rounding=rounding)
        check_scale("QKNorm", kind, scale)
        if bias and (kind == "l2" or not learned):
            rule = "a bias needs kind 'rms' or 'layer', and learned=True"
            raise OptionError(sentence("QKNorm", rule, f"kind is {kind!r}, learned is {learned}"))
        self.head_width = checked_width("QKNorm", "head_width", head_width)
        self.heads, self.kv_heads = _head_counts(over, heads, kv_heads)
        self.kind, self.over, self.learned = kind, over, learned
        self.eps = QK_EPS[kind] if eps is None else eps
        self.initial_scale = math.sqrt(self.head_width) if scale is None else scale
        self.zero_centred, self.rounding = zero_centred, rounding
        gains = learned and kind != "l2"
        sizes = {
            "q_weight": self.head_width * (self.heads or 1) if gains else None,
            "k_weight": self.head_width * (self.kv_heads or 1) if gains else None,
            "scale": 1 if learned and kind == "l2" else None,
        }
        sizes |= {f"{x}_bias": sizes[f"{x}_weight"] if bias else None for x in "qk"}
        register_parameters(self, sizes, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Gains 1 (0 where zero_centred), biases 0, the scale as the constructor was given it."""
        for weight in (self.q_weight, self.k_weight):
            if weight is not None:
                nn.init.constant_(weight, 0.0 if self.zero_centred else 1.0)
        for bias in (self.q_bias, self.k_bias):
            if bias is not None:
                nn.init.zeros_(bias)
        if self.scale is not None:
            nn.init.constant_(self.scale, self.initial_scale)

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Normalise both; see the class for shapes."""
        for name, x, heads in (("q", q, self.heads), ("k", k, self.kv_heads)):
            check_head_width("QKNorm", name, x, self.head_width)
            if heads is not None:
                check_heads("QKNorm", name, x, heads)
        scale: Tensor | float | None = self.scale
        if self.kind == "l2" and scale is None:
            scale = self.initial_scale
        return functional.qk_norm(
            q,
            k,
            self.q_weight,
            self.k_weight,
            q_bias=self.q_bias,
            k_bias=self.k_bias,
            kind=self.kind,
            over=self.over,
            eps=self.eps,
            scale=scale,
            zero_centred=self.zero_centred,
            rounding=self.rounding,
        )

    def extra_repr(self) -> str:
        """The arguments, those that stand at their defaults left out from learned on."""
        heads = f", heads={self.heads}, kv_heads={self.kv_heads}" if self.heads else ""
        text = f"{self.head_width}{heads}, kind={self.kind!r}, over={self.over!r}, eps={self.eps}"
        if not self.learned:
            text += ", learned=False"
        if self.q_bias is not None:
            text += ", bias=True"
        if self.kind == "l2":
            text += f", scale={self.initial_scale}"
        return text + more_options(self, ("zero_centred", "rounding"))


def _head_counts(
    over: QKOver, heads: int | None, kv_heads: int | None
) -> tuple[int | None, int | None]:
    """How many heads share one set of statistics, of q and of k; None: each has its own."""
    if over == "head":
        if heads is not None or kv_heads is not None:
            rule = "heads and kv_heads are for over='projection'"
            came = "over is 'head', where all heads share one gain"
            raise OptionError(sentence("QKNorm", rule, came))
        return None, None
    if heads is None:
        rule = "over='projection' needs the number of heads"
        raise OptionError(sentence("QKNorm", rule, "heads is None", "Try heads=8"))
    count = checked_width("QKNorm", "heads", heads)
    return count, count if kv_heads is None else checked_width("QKNorm", "kv_heads", kv_heads)
