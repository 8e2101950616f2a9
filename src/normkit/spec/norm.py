"""NormSpec: which function a normalization layer computes, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from normkit.errors import OptionError, check_choice, sentence

Role = Literal["batch", "position", "space", "feature", "group", "head"]
Scale = Literal["std", "rms", "l2", "none"]
Squash = Literal["none", "tanh", "erf"]
EpsPlace = Literal["inside", "outside", "clamp"]
GainForm = Literal["none", "plain", "zero_centred"]
GainOver = Literal["vector", "scalar", "element"]
Gate = Literal["none", "silu", "sigmoid"]
GateFunction = Literal["silu", "sigmoid"]  # of an op that has a gate
GatePlace = Literal["before", "after"]
Source = Literal["own", "batch", "running"]
StatsBackward = Literal["exact", "running"]
Rounding = Literal["once", "before_gain"]
OutputDtype = Literal["input", "promoted", "weight"]

ROLES: tuple[Role, ...] = ("batch", "position", "space", "feature", "group", "head")
EPS_PLACES: tuple[EpsPlace, ...] = ("inside", "outside", "clamp")
GATE_FUNCTIONS: tuple[GateFunction, ...] = ("silu", "sigmoid")
GATE_PLACES: tuple[GatePlace, ...] = ("after", "before")
ROUNDINGS: tuple[Rounding, ...] = ("once", "before_gain")
OUTPUT_DTYPES: tuple[OutputDtype, ...] = ("input", "promoted", "weight")


@dataclass(frozen=True, kw_only=True)
class GainSpec:
    """What multiplies, shifts or gates the normalised value.

    Attributes:
        form: ``plain`` multiplies by w, ``zero_centred`` by 1 + w, ``none`` by nothing.
        over: a weight per feature (``vector``), one number (``scalar``: ScaleNorm, the learned
            temperature of QK-norm), or one weight per normalised element (``element``: a
            LayerNorm over several axes).
        bias: a learned shift is added.
        conditional: scale and shift come from a second input, ``(1 + scale) * y + shift`` (adaLN).
        gate: a second input multiplies through this function.
        gate_place: the gate acts on x ``before`` the norm or on y ``after`` it.
    """

    form: GainForm = "plain"
    over: GainOver = "vector"
    bias: bool = False
    conditional: bool = False
    gate: Gate = "none"
    gate_place: GatePlace = "after"

    def __post_init__(self) -> None:
        """Refuse values outside the vocabulary."""
        check_choice("GainSpec", "form", self.form, ("none", "plain", "zero_centred"))
        check_choice("GainSpec", "over", self.over, ("vector", "scalar", "element"))
        check_choice("GainSpec", "gate", self.gate, ("none", "silu", "sigmoid"))
        check_choice("GainSpec", "gate_place", self.gate_place, ("before", "after"))


@dataclass(frozen=True, kw_only=True)
class StatsSpec:
    """Where the statistics come from, in training and in evaluation.

    Attributes:
        train, eval: ``own`` (this sample's), ``batch`` (shared with other samples) or ``running``.
        momentum: weight of the new value in the running statistics; None is a cumulative mean.
        backward_momentum: the same for a running statistic of the backward pass (PowerNorm).
        unbiased_running: the running variance is the n - 1 one (torch's BatchNorm).
        warmup: number of first updates in which training uses the batch instead.
        backward: ``exact`` differentiates the statistics, ``running`` approximates (PowerNorm).
        masked: positions that are not real are left out.
    """

    train: Source = "own"
    eval: Source = "own"
    momentum: float | None = None
    backward_momentum: float | None = None
    unbiased_running: bool = False
    warmup: int = 0
    backward: StatsBackward = "exact"
    masked: bool = False

    def __post_init__(self) -> None:
        """Refuse values outside the vocabulary."""
        check_choice("StatsSpec", "train", self.train, ("own", "batch", "running"))
        check_choice("StatsSpec", "eval", self.eval, ("own", "batch", "running"))
        check_choice("StatsSpec", "backward", self.backward, ("exact", "running"))


@dataclass(frozen=True, kw_only=True)
class PrecisionSpec:
    """In which dtype the norm computes, where it rounds, what it returns.

    Attributes:
        compute_dtype: ``widest`` is float32 or better whatever the input (the house rule);
            otherwise the name of a dtype, or ``input``.
        rounding: ``once`` at the end (torch, Gemma), or also ``before_gain`` (Llama).
        output_dtype: that of the input, the promotion of input and weight, or the weight's.
    """

    compute_dtype: str = "widest"
    rounding: Rounding = "once"
    output_dtype: OutputDtype = "input"

    def __post_init__(self) -> None:
        """Refuse values outside the vocabulary."""
        check_choice("PrecisionSpec", "rounding", self.rounding, ROUNDINGS)
        check_choice("PrecisionSpec", "output_dtype", self.output_dtype, OUTPUT_DTYPES)


@dataclass(frozen=True, kw_only=True)
class NormSpec:
    """Which function a normalization computes.

    The elements that share one set of statistics are those that differ only in the axes ``over``.
    With s the statistic and e the eps, the divisor is ``sqrt(s^2 + e)`` (``inside``), ``s + e``
    (``outside``) or ``max(s, e)`` (``clamp``).

    Attributes:
        over: roles of the axes; ``group`` and ``head`` are the features within one of them.
        center: the mean is subtracted.
        scale: divide by the standard deviation, the root mean square, the Euclidean norm, nothing.
        squash: bounded function in place of a statistic (DynamicTanh, DynamicErf).
        squash_shift: the bounded function has a learned shift inside.
        unbiased: n - 1 in the variance.
        fraction: part of the features that is measured (pRMSNorm).
        groups: number of groups of features; None where the spec has no groups.
        eps: None is the machine epsilon of the compute dtype (torch's RMSNorm).
        eps_place: see above.
        gain, stats, precision: what follows, where statistics come from, how it is rounded.

    Example:
        >>> NormSpec(over=("feature",), center=False, scale="rms", eps=1e-6).gain.form
        'plain'
    """

    over: tuple[Role, ...]
    center: bool = True
    scale: Scale = "std"
    squash: Squash = "none"
    squash_shift: bool = False
    unbiased: bool = False
    fraction: float = 1.0
    groups: int | None = None
    eps: float | None = 1e-5
    eps_place: EpsPlace = "inside"
    gain: GainSpec = field(default_factory=GainSpec)
    stats: StatsSpec = field(default_factory=StatsSpec)
    precision: PrecisionSpec = field(default_factory=PrecisionSpec)

    def __post_init__(self) -> None:
        """Refuse values outside the vocabulary and combinations that mean nothing."""
        for role in self.over:
            check_choice("NormSpec", "over", role, ROLES)
        check_choice("NormSpec", "scale", self.scale, ("std", "rms", "l2", "none"))
        check_choice("NormSpec", "squash", self.squash, ("none", "tanh", "erf"))
        check_choice("NormSpec", "eps_place", self.eps_place, EPS_PLACES)
        if not 0.0 < self.fraction <= 1.0:
            rule = "fraction must lie in (0, 1]"
            raise OptionError(sentence("NormSpec", rule, f"fraction is {self.fraction}"))
        if self.scale == "std" and not self.center:
            rule = "a standard deviation is taken around the mean"
            fix = "Try scale='rms' for a norm that does not centre"
            raise OptionError(sentence("NormSpec", rule, "center is False", fix))


# A composite, such as PowerNorm (group scaling, then a running rms), is a tuple applied in order.
Composite = tuple[NormSpec, ...]
