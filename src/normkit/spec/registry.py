"""The registry: every norm and every placement that normkit knows, by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from normkit.errors import OptionError, choices
from normkit.spec.norm import Composite, GainSpec, NormSpec, StatsSpec
from normkit.spec.placement import ALL_BRANCHES, InitGain, PlacementSpec, ResidualScale


@dataclass(frozen=True, kw_only=True)
class NormEntry:
    """One named norm: its spec at the layer's defaults and where it stands in the house.

    Attributes:
        name: the one name that it has in every folder.
        title: for people.
        spec: the function that it computes with default options.
        layers: class names in ``normkit.layers``.
        op: name of its op; None for a norm that computes nothing.
        kernel: name of its compiled kernel; None where the op runs torch operations.
        source: where it was published.
    """

    name: str
    title: str
    spec: NormSpec | Composite
    layers: tuple[str, ...]
    op: str | None
    kernel: str | None = None
    source: str


@dataclass(frozen=True, kw_only=True)
class PlacementEntry:
    """One named placement and where it was published."""

    name: str
    title: str
    spec: PlacementSpec
    source: str


def _norms(*entries: NormEntry) -> Mapping[str, NormEntry]:
    return {entry.name: entry for entry in entries}


def _placements(*entries: PlacementEntry) -> Mapping[str, PlacementEntry]:
    return {entry.name: entry for entry in entries}


_BATCH_STATS = StatsSpec(train="batch", eval="running", momentum=0.1, unbiased_running=True)

NORMS: Mapping[str, NormEntry] = _norms(
    NormEntry(
        name="layer_norm",
        title="LayerNorm",
        spec=NormSpec(over=("feature",), gain=GainSpec(bias=True)),
        layers=("LayerNorm",),
        op="layer_norm",
        source="Ba et al. 2016, arXiv:1607.06450",
    ),
    NormEntry(
        name="rms_norm",
        title="RMSNorm",
        spec=NormSpec(over=("feature",), center=False, scale="rms", eps=None),
        layers=("RMSNorm",),
        op="rms_norm",
        source="Zhang and Sennrich 2019, arXiv:1910.07467",
    ),
    NormEntry(
        name="batch_norm",
        title="BatchNorm",
        spec=NormSpec(
            over=("batch", "position", "space"), gain=GainSpec(bias=True), stats=_BATCH_STATS
        ),
        layers=("BatchNorm1d", "BatchNorm2d", "BatchNorm3d"),
        op="batch_norm",
        source="Ioffe and Szegedy 2015, arXiv:1502.03167",
    ),
    NormEntry(
        name="masked_batch_norm",
        title="Masked BatchNorm",
        spec=NormSpec(
            over=("batch", "position", "space"),
            gain=GainSpec(bias=True),
            stats=StatsSpec(
                train="batch", eval="running", momentum=0.1, unbiased_running=True, masked=True
            ),
        ),
        layers=("MaskedBatchNorm",),
        op="batch_norm",
        source="Ioffe and Szegedy 2015, over real positions only",
    ),
    NormEntry(
        name="no_norm",
        title="no norm",
        spec=NormSpec(over=(), center=False, scale="none", gain=GainSpec(form="none")),
        layers=("NoNorm",),
        op=None,
        source="the identity, for comparisons",
    ),
)

_DEEPNORM = ResidualScale(rule="deepnorm", value=None)

PLACEMENTS: Mapping[str, PlacementEntry] = _placements(
    PlacementEntry(
        name="post",
        title="Post-norm",
        spec=PlacementSpec(norm_sum=ALL_BRANCHES),
        source="Vaswani et al. 2017, arXiv:1706.03762",
    ),
    PlacementEntry(
        name="pre",
        title="Pre-norm",
        spec=PlacementSpec(norm_in=ALL_BRANCHES, final_norm=True),
        source="Xiong et al. 2020, arXiv:2002.04745",
    ),
    PlacementEntry(
        name="deepnorm",
        title="DeepNorm",
        spec=PlacementSpec(
            norm_sum=ALL_BRANCHES,
            skip_scale=_DEEPNORM,
            init=InitGain(ffn="deepnorm", value="deepnorm", output="deepnorm"),
        ),
        source="Wang et al. 2022, arXiv:2203.00555",
    ),
    PlacementEntry(
        name="sandwich",
        title="Sandwich-norm",
        spec=PlacementSpec(norm_in=ALL_BRANCHES, norm_out=ALL_BRANCHES, final_norm=True),
        source="Ding et al. 2021, arXiv:2105.13290",
    ),
    PlacementEntry(
        name="peri",
        title="Peri-norm",
        spec=PlacementSpec(
            norm_in=ALL_BRANCHES, norm_out=ALL_BRANCHES, embedding_norm=True, final_norm=True
        ),
        source="Kim et al. 2025, arXiv:2502.02732",
    ),
    PlacementEntry(
        name="sub_ln",
        title="Sub-LN",
        spec=PlacementSpec(
            norm_in=ALL_BRANCHES,
            norm_inside=("attention", "ffn"),
            final_norm=True,
            init=InitGain(ffn="sub_ln", value="sub_ln", output="sub_ln"),
        ),
        source="Wang et al. 2022, arXiv:2210.06423",
    ),
    PlacementEntry(
        name="normformer",
        title="NormFormer",
        spec=PlacementSpec(
            norm_in=ALL_BRANCHES,
            norm_out=("attention",),
            norm_inside=("ffn",),
            head_scale=True,
            final_norm=True,
        ),
        source="Shleifer et al. 2021, arXiv:2110.09456",
    ),
    PlacementEntry(
        name="residual",
        title="ResiDual",
        spec=PlacementSpec(norm_sum=ALL_BRANCHES, streams=2, final_norm=True),
        source="Xie et al. 2023, arXiv:2304.14802",
    ),
    PlacementEntry(
        name="layer_scale",
        title="LayerScale",
        spec=PlacementSpec(
            norm_in=ALL_BRANCHES,
            branch_scale=ResidualScale(rule="learned_vector", value=None),
            final_norm=True,
        ),
        source="Touvron et al. 2021, arXiv:2103.17239",
    ),
    PlacementEntry(
        name="rezero",
        title="ReZero",
        spec=PlacementSpec(branch_scale=ResidualScale(rule="learned_scalar", value=0.0)),
        source="Bachlechner et al. 2020, arXiv:2003.04887",
    ),
)


def norm_entry(name: str) -> NormEntry:
    """Look a norm up by name.

    Raises:
        OptionError: no norm has this name; the sentence lists those that exist.

    Example:
        >>> norm_entry("rms_norm").title
        'RMSNorm'
    """
    if name not in NORMS:
        raise OptionError(_unknown("norm", name, NORMS))
    return NORMS[name]


def placement_entry(name: str) -> PlacementEntry:
    """Look a placement up by name.

    Raises:
        OptionError: no placement has this name; the sentence lists those that exist.

    Example:
        >>> placement_entry("pre").spec.final_norm
        True
    """
    if name not in PLACEMENTS:
        raise OptionError(_unknown("placement", name, PLACEMENTS))
    return PLACEMENTS[name]


def _unknown(kind: str, name: str, table: Mapping[str, object]) -> str:
    text = f"{kind} must be {choices(table)}; got {name!r}."
    close = difflib.get_close_matches(name, table, n=1)
    return f"{text} Did you mean {close[0]!r}?" if close else text
