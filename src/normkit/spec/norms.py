"""The table of norms, each with the spec of its layer at default options."""

from __future__ import annotations

from normkit.spec.entries import NormEntry
from normkit.spec.norm import GainSpec, NormSpec, Role, Squash, StatsSpec

_BATCH_STATS = StatsSpec(train="batch", eval="running", momentum=0.1, unbiased_running=True)


def _rms(
    *,
    over: tuple[Role, ...] = ("feature",),
    groups: int | None = None,
    eps: float = 1e-6,
    gain: GainSpec,
) -> NormSpec:
    return NormSpec(over=over, center=False, scale="rms", groups=groups, eps=eps, gain=gain)


def _squash(function: Squash, *, shift: bool = False) -> NormSpec:
    return NormSpec(
        over=(),
        center=False,
        scale="none",
        squash=function,
        squash_shift=shift,
        eps=0.0,
        gain=GainSpec(bias=True),
    )


NORM_TABLE: tuple[NormEntry, ...] = (
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
        name="group_norm",
        title="GroupNorm",
        spec=NormSpec(over=("group", "space"), groups=32, gain=GainSpec(bias=True)),
        layers=("GroupNorm",),
        op="group_norm",
        source="Wu and He 2018, arXiv:1803.08494",
    ),
    NormEntry(
        name="instance_norm",
        title="InstanceNorm",
        spec=NormSpec(over=("space",), gain=GainSpec(form="none")),
        layers=("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"),
        op="group_norm",
        source="Ulyanov et al. 2016, arXiv:1607.08022",
    ),
    NormEntry(
        name="channel_layer_norm",
        title="LayerNorm over channels",
        spec=NormSpec(over=("feature",), eps=1e-6, gain=GainSpec(bias=True)),
        layers=("ChannelLayerNorm",),
        op="channel_layer_norm",
        source="Liu et al. 2022 (ConvNeXt), arXiv:2201.03545",
    ),
    NormEntry(
        name="scale_norm",
        title="ScaleNorm",
        spec=NormSpec(
            over=("feature",),
            center=False,
            scale="l2",
            eps_place="clamp",
            gain=GainSpec(over="scalar"),
        ),
        layers=("ScaleNorm",),
        op="scale_norm",
        source="Nguyen and Salazar 2019, arXiv:1910.05895",
    ),
    NormEntry(
        name="gated_rms_norm",
        title="gated RMSNorm",
        spec=_rms(gain=GainSpec(gate="silu", gate_place="after")),
        layers=("GatedRMSNorm",),
        op="gated_rms_norm",
        source="Dao and Gu 2024 (Mamba 2), arXiv:2405.21060",
    ),
    NormEntry(
        name="adaptive_layer_norm",
        title="adaptive LayerNorm",
        spec=NormSpec(over=("feature",), eps=1e-6, gain=GainSpec(form="none", conditional=True)),
        layers=("AdaptiveLayerNorm",),
        op="adaptive_layer_norm",
        source="Peebles and Xie 2022 (DiT), arXiv:2212.09748",
    ),
    NormEntry(
        name="adaptive_rms_norm",
        title="adaptive RMSNorm",
        spec=_rms(gain=GainSpec(form="none", conditional=True)),
        layers=("AdaptiveRMSNorm",),
        op="adaptive_rms_norm",
        source="Peebles and Xie 2022 (DiT), arXiv:2212.09748, with an RMSNorm inside",
    ),
    NormEntry(
        name="qk_norm",
        title="QK-norm",
        spec=_rms(over=("head",), gain=GainSpec()),
        layers=("QKNorm",),
        op="rms_norm",
        source="Henry et al. 2020, arXiv:2010.04245; Dehghani et al. 2023, arXiv:2302.05442",
    ),
    NormEntry(
        name="dynamic_tanh",
        title="DynamicTanh",
        spec=_squash("tanh"),
        layers=("DynamicTanh",),
        op="dynamic_tanh",
        source="Zhu et al. 2025, arXiv:2503.10622",
    ),
    NormEntry(
        name="dynamic_erf",
        title="DynamicErf",
        spec=_squash("erf", shift=True),
        layers=("DynamicErf",),
        op="dynamic_erf",
        source="arXiv:2512.10938",
    ),
    NormEntry(
        name="power_norm",
        title="PowerNorm",
        spec=(
            _rms(over=("group",), groups=1, eps=1e-5, gain=GainSpec(form="none")),
            NormSpec(
                over=("batch", "position"),
                center=False,
                scale="rms",
                gain=GainSpec(bias=True),
                stats=StatsSpec(
                    train="running",
                    eval="running",
                    momentum=0.1,
                    backward_momentum=0.1,
                    warmup=10000,
                    backward="running",
                    masked=True,
                ),
            ),
        ),
        layers=("PowerNorm",),
        op="power_norm",
        source="Shen et al. 2020, arXiv:2003.07845",
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
