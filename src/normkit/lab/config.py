"""RunConfig: everything that decides what one training run computes, as frozen data."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from normkit.errors import check_choice
from normkit.lab.task import TaskSpec

# What a grid may vary. Everything else is the same in all runs of one comparison.
AXES = ("norm", "placement", "depth", "batch_size", "lr", "dtype", "seed")
DTYPES = ("float32", "bfloat16", "float64")


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """The Transformer, apart from the norm, its placement and the depth."""

    width: int = 128
    heads: int = 4
    ffn_width: int | None = None
    positions: Literal["learned", "sinusoidal"] = "learned"
    activation: Literal["gelu", "relu"] = "gelu"
    dropout: float = 0.0


@dataclass(frozen=True, kw_only=True)
class TrainingSpec:
    """The optimiser and the clockwork of the loop.

    Attributes:
        steps: updates of the weights.
        interval: every so many steps records are written, validation is evaluated and a
            checkpoint replaces the one before; a kill loses at most this much.
        warmup_steps: the learning rate rises linearly over these steps, then stays.
        weight_decay: AdamW's, on matrices only: gains and biases are never pulled to zero.
        betas: AdamW's.
        clip_norm: largest norm of the whole gradient; None does not clip.
        accumulation: pieces that a batch is cut into, one after the other, for one update.
    """

    steps: int = 400
    interval: int = 50
    warmup_steps: int = 0
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    clip_norm: float | None = None
    accumulation: int = 1


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training run.

    Example:
        >>> config = RunConfig(norm="rms_norm", placement="pre", depth=2)
        >>> config.id
        'rms_norm-pre-depth2-batch32-lr0.001-float32-seed0-35a94021'
        >>> RunConfig.from_json(config.to_json()) == config
        True
    """

    norm: str
    placement: str
    depth: int
    batch_size: int = 32
    lr: float = 1e-3
    dtype: str = "float32"
    seed: int = 0
    task: TaskSpec = field(default_factory=TaskSpec)
    model: ModelSpec = field(default_factory=ModelSpec)
    training: TrainingSpec = field(default_factory=TrainingSpec)

    def __post_init__(self) -> None:
        """Refuse a dtype that the lab does not train in."""
        check_choice("compare", "dtype", self.dtype, DTYPES)

    @property
    def id(self) -> str:
        """Readable name of the run; its last part is a hash of the whole configuration."""
        digest = hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()
        what = f"{self.norm}-{self.placement}-depth{self.depth}-batch{self.batch_size}"
        return f"{what}-lr{self.lr:g}-{self.dtype}-seed{self.seed}-{digest[:8]}"

    def to_dict(self) -> dict[str, Any]:
        """Plain nested data, ready for JSON."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """Text of ``config.json``."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunConfig:
        """The inverse of :meth:`to_dict`."""
        plain = dict(data)
        training = dict(plain.pop("training"))
        training["betas"] = tuple(training["betas"])
        return cls(
            task=TaskSpec(**plain.pop("task")),
            model=ModelSpec(**plain.pop("model")),
            training=TrainingSpec(**training),
            **plain,
        )

    @classmethod
    def from_json(cls, text: str) -> RunConfig:
        """The inverse of :meth:`to_json`."""
        return cls.from_dict(json.loads(text))
