"""Loading what others saved: names of old checkpoints, TensorFlow's momentum, gains stored as w."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from normkit.errors import DataError, OptionError, sentence

Verdict = Literal["plain", "zero-centred", "unclear"]

# By the last component of a key: its new name, and the siblings of which one must be there. A
# LayerScale has a gamma and no beta: it is no norm and keeps its name (transformers#29554).
_STATISTICS = ("moving_mean", "moving_variance", "running_mean", "running_var")
_RULES = {
    "gamma": ("weight", ("beta", *_STATISTICS)),
    "beta": ("bias", ("gamma", *_STATISTICS)),
    "a_2": ("weight", ("b_2",)),
    "b_2": ("bias", ("a_2",)),
    "moving_mean": ("running_mean", ("moving_variance",)),
    "moving_variance": ("running_var", ("moving_mean",)),
}
# How far a mean may lie from 0 or from 1 to say which of the two it belongs to.
_NEAR = 0.25


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A stored gain: its key in the result, its mean as it was stored, and what that says."""

    key: str
    mean: float
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class NameReport:
    """What :func:`convert_names` did.

    Attributes:
        renamed: new key by old key.
        left: keys that only look like a norm's, which kept their names.
        gains: every gain of a norm without running statistics.
        mean: mean of ``gains[...].mean``; None where there are none.
        verdict: what ``mean`` says of them all together.
        shifted: what was added to each of these gains: 0, or -1 or 1.
    """

    renamed: Mapping[str, str]
    left: tuple[str, ...]
    gains: tuple[Gain, ...]
    mean: float | None
    verdict: Verdict
    shifted: int

    def __str__(self) -> str:
        """Say it in lines."""
        lines = [f"{old} -> {new}" for old, new in self.renamed.items()]
        lines += [f"{key} kept its name: nothing beside it says norm" for key in self.left]
        lines += [f"{gain.key}: mean {gain.mean:.3g}, {gain.verdict}" for gain in self.gains]
        if self.mean is not None:
            lines.append(f"all gains: mean {self.mean:.3g}, {self.verdict}")
        if self.shifted:
            lines.append(f"{self.shifted:+d} was added to each gain")
        return "\n".join(lines)


def convert_names(
    state_dict: Mapping[str, Any], *, zero_centred: bool | None = None
) -> tuple[dict[str, Any], NameReport]:
    """Give a checkpoint's norms the names that torch and normkit use.

    =====================================  =======================================
    old                                    new
    =====================================  =======================================
    ``gamma``, ``beta``                    ``weight``, ``bias``
    ``a_2``, ``b_2`` (annotated tutorial)  ``weight``, ``bias``
    ``moving_mean``, ``moving_variance``   ``running_mean``, ``running_var``
    =====================================  =======================================

    Only the last component of a key is renamed (after the last ``.`` or ``/``; TensorFlow's ``:0``
    is dropped with it), and only where a sibling of the same shape says that it is a norm's: a
    ``gamma`` with neither ``beta`` nor statistics beside it may be a LayerScale. The report names
    those that were left.

    A gain is stored as w, or less 1 where the layer computes ``1 + w`` (``zero_centred``). Nothing
    in a checkpoint says which; its mean does, unless training moved it far: near 0 it is
    zero-centred, near 1 plain. Counted as gains are one-axis weights of more than one element,
    those beside running statistics excepted (PReLU's weights look the same).

    Args:
        state_dict: what was saved; it is not changed, and every tensor that keeps its value is the
            same object in the result.
        zero_centred: how gains shall be stored in the result. True takes 1 from each, False adds 1,
            in float32 or better (a half-precision gain comes back as float32); None leaves them.

    Returns:
        The new dictionary, keys in their old order, and what was done.

    Raises:
        DataError: two keys would become one; or gains are stored as ``zero_centred`` asks already.

    Example:
        >>> old = {"norm.gamma": torch.ones(2), "norm.beta": torch.zeros(2), "gamma": torch.ones(2)}
        >>> new, report = convert_names(old)
        >>> list(new)
        ['norm.weight', 'norm.bias', 'gamma']
        >>> print(report)
        norm.gamma -> norm.weight
        norm.beta -> norm.bias
        gamma kept its name: nothing beside it says norm
        norm.weight: mean 1, plain
        all gains: mean 1, plain
    """
    renamed, left = _renamed(state_dict)
    new = {renamed.get(key, key): value for key, value in state_dict.items()}
    gains = tuple(Gain(key=k, mean=m, verdict=_verdict(m)) for k, m in _gains(new))
    mean = sum(gain.mean for gain in gains) / len(gains) if gains else None
    verdict = "unclear" if mean is None else _verdict(mean)
    shift = 0 if zero_centred is None else (-1 if zero_centred else 1)
    if verdict == {0: None, -1: "zero-centred", 1: "plain"}[shift]:
        rule = f"zero_centred={zero_centred} converts gains that are stored the other way"
        came = f"their mean is {mean:.3g}, so they are {verdict} already"
        raise DataError(sentence("convert_names", rule, came, "Leave zero_centred out"))
    if shift:
        new |= {gain.key: _shifted(new[gain.key], shift) for gain in gains}
    report = NameReport(
        renamed=renamed, left=left, gains=gains, mean=mean, verdict=verdict, shifted=shift
    )
    return new, report


def torch_momentum(tensorflow_momentum: float) -> float:
    """Turn the weight of the old statistics (TensorFlow) into that of the new ones (torch).

    Raises:
        OptionError: the momentum does not lie in [0, 1].

    Example:
        >>> torch_momentum(0.99)
        0.01
    """
    if not 0.0 <= tensorflow_momentum <= 1.0:
        rule = "tensorflow_momentum must lie in [0, 1]"
        came = f"tensorflow_momentum is {tensorflow_momentum}"
        raise OptionError(sentence("torch_momentum", rule, came))
    return round(1.0 - tensorflow_momentum, 12)  # 0.01, not 0.010000000000000009


def _renamed(state_dict: Mapping[str, Any]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Give new key by old key, and the keys that look like a norm's but are left."""
    renamed, left = {}, []
    for key, value in state_dict.items():
        prefix, name, end = _parts(key)
        if name not in _RULES:
            continue
        new_name, siblings = _RULES[name]
        beside = (state_dict.get(prefix + sibling + end) for sibling in siblings)
        if any(_shape(value) is not None and _shape(value) == _shape(other) for other in beside):
            renamed[key] = prefix + new_name
        else:
            left.append(key)
    taken = {key: key for key in state_dict if key not in renamed}
    for old, new in renamed.items():
        if new in taken:
            rule = "no two keys may become one"
            came = f"{taken[new]!r} and {old!r} would both be {new!r}"
            raise DataError(sentence("convert_names", rule, came))
        taken[new] = old
    return renamed, tuple(left)


def _parts(key: str) -> tuple[str, str, str]:
    """Cut a key into prefix (with its separator), last component, and TensorFlow's ``:0``."""
    whole, colon, number = key.rpartition(":")
    whole, end = (whole, colon + number) if number.isdigit() and colon else (key, "")
    cut = max(whole.rfind("."), whole.rfind("/")) + 1
    return whole[:cut], whole[cut:], end


def _shape(value: object) -> torch.Size | None:
    return value.shape if isinstance(value, Tensor) else None


def _gains(state_dict: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Give the key and the mean of every gain."""
    for key, value in state_dict.items():
        prefix, name, _ = _parts(key)
        if name != "weight" or f"{prefix}running_mean" in state_dict:
            continue
        if isinstance(value, Tensor) and value.dim() == 1 and len(value) > 1:
            yield key, value.double().mean().item()


def _verdict(mean: float) -> Verdict:
    if abs(mean) < _NEAR:
        return "zero-centred"
    return "plain" if abs(mean - 1.0) < _NEAR else "unclear"


def _shifted(gain: Tensor, shift: int) -> Tensor:
    """Add in float32 or better: bfloat16 would round what is small against 1 away."""
    return gain.to(torch.promote_types(gain.dtype, torch.float32)) + shift
