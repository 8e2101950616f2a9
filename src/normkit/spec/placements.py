"""The table of placements."""

from __future__ import annotations

from normkit.spec.entries import PlacementEntry
from normkit.spec.placement import ALL_BRANCHES, InitGain, PlacementSpec, ResidualScale

_DEEPNORM = ResidualScale(rule="deepnorm", value=None)

PLACEMENT_TABLE: tuple[PlacementEntry, ...] = (
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
