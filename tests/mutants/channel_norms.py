"""Bugs in GroupNorm, InstanceNorm and the LayerNorm over channels: groups, masks, axes, layouts."""

from __future__ import annotations

from functools import partial

from tests.mutants.mutant import Mutant
from tests.mutants.selections import contract, norm

_formula = partial(Mutant, file="reference/group_norm.py")
_op = partial(Mutant, file="ops/group_norm.py")
_instance = partial(Mutant, file="functional/instance_norm.py")
_channel_op = partial(Mutant, file="ops/channel_layer_norm.py")

_X_HAT = "    x_hat = (around / (var + eps).sqrt()).reshape(x_MKR.shape)\n"
_VARIANCE = "    var = mean_square(around, valid_MN)\n"
_GATHERED = norm("group_norm", "masked_equals_the_gathered_computation")
_INSTANCE_GATHERED = norm("instance_norm", "masked_equals_the_gathered_computation")
_TINY = norm("group_norm", "bounds[torch-whole-torch.float32-tiny]")
_UNIT = norm("group_norm", "bounds[torch-whole-torch.float32-unit]")

MUTANTS: tuple[Mutant, ...] = (
    _formula(
        id="group-norm-eps-ignored",
        family="eps ignored",
        tests=_TINY,
        old=_X_HAT,
        new="    x_hat = (around / var.sqrt()).reshape(x_MKR.shape)\n",
    ),
    _formula(
        id="group-norm-eps-outside",
        family="eps outside instead of inside",
        tests=_TINY,
        old=_X_HAT,
        new="    x_hat = (around / (var.sqrt() + eps)).reshape(x_MKR.shape)\n",
    ),
    Mutant(
        id="group-norm-eps-of-channel-layer-norm",
        family="eps of the wrong value",
        file="functional/group_norm.py",
        tests=_TINY,
        old="ops.GroupNormFormula(num_groups, float(eps),",
        new="ops.GroupNormFormula(num_groups, 1e-6,",
    ),
    _formula(
        id="group-norm-n-minus-1",
        family="n-1",
        tests=_UNIT,
        old=_VARIANCE,
        new=f"    n = max(around.shape[1], 2)\n{_VARIANCE[:-1]} * (n / (n - 1))\n",
    ),
    _formula(
        id="group-norm-gain-lost-in-backward",
        family="gain lost in backward",
        tests=_UNIT,
        old="    g = gained(dy, _each(weight_MK), None, zero_centred=False)\n",
        new="    g = dy\n",
    ),
    _formula(
        id="group-norm-mask-ignored-in-mean",
        family="mask ignored in statistics",
        tests=_GATHERED,
        old="centred(_real(x_MKR, valid).flatten(1), valid_MN)",
        new="centred(_real(x_MKR, valid).flatten(1))",
    ),
    _formula(
        id="group-norm-mask-ignored-in-variance",
        family="mask ignored in statistics",
        tests=_GATHERED,
        old=_VARIANCE,
        new="    var = mean_square(around)\n",
    ),
    _formula(
        id="group-norm-mask-ignored-in-output",
        family="mask ignored in statistics",
        tests=_GATHERED,
        old="    return _real(y, valid), mean",
        new="    return y, mean",
    ),
    _formula(
        id="group-norm-mask-ignored-in-backward-means",
        family="mask ignored in backward",
        tests=_GATHERED,
        old="measured_N=valid_MN\n",
        new="measured_N=None\n",
    ),
    _formula(
        id="group-norm-mask-ignored-in-dy",
        family="mask ignored in backward",
        tests=_GATHERED,
        old="    dy, x = _real(dy_MKR, valid), _real(x_MKR, valid)\n",
        new="    dy, x = dy_MKR, _real(x_MKR, valid)\n",
    ),
    _formula(
        id="group-norm-empty-sample-divides-by-zero",
        family="mask ignored in backward",
        tests=norm("group_norm", "a_sample_without_a_real_position_gives_zeros"),
        old="_real(dx.reshape(x.shape), valid), _real(x_hat.reshape(x.shape), valid)\n",
        new="dx.reshape(x.shape), x_hat.reshape(x.shape)\n",
    ),
    _op(
        id="group-norm-mask-ignored-in-range",
        family="mask ignored in statistics",
        tests=norm("group_norm", "huge_padding_changes_nothing"),
        old="        x = x_MKR if valid_MR is None else torch.where(valid_MR[:, None], x_MKR, 0)\n",
        new="        x = x_MKR\n",
    ),
    _op(
        id="group-norm-groups-interleaved",
        family="channel axis wrong",
        tests=norm("group_norm", "groups_are_neighbours_by_number"),
        old="        x_MKR = x.reshape(B * G, K, R)\n",
        new="        x_MKR = x.reshape(B, K, G, R).transpose(1, 2).reshape(B * G, K, R)\n",
    ),
    _op(
        id="group-norm-one-gain-per-group",
        family="channel axis wrong",
        tests=norm("group_norm", "groups_are_neighbours_by_number"),
        old="t.expand(B, C).reshape(B * G, K)",
        new="t.expand(B, C).reshape(B * G, K)[:, :1].expand(B * G, K)",
    ),
    _op(
        id="group-norm-layout-lost",
        family="memory format",
        tests=contract("modules", "memory_format_is_kept_and_changes_no_bit", "group_norm_image"),
        old="_shaped(y, x, memory_format(x)), *statistics,",
        new="_shaped(y, x, torch.contiguous_format), *statistics,",
    ),
    _op(
        id="group-norm-dgamma-in-half",
        family="dgamma in half",
        tests=_UNIT,
        old="        sums = (summed_to(joined(t).reshape(B, C), torch.Size([C]))",
        new="        sums = (summed_to(joined(t).half().reshape(B, C), torch.Size([C]))",
    ),
    Mutant(
        id="group-norm-ignores-the-mask-around",
        family="option ignored",
        file="layers/group_norm.py",
        tests=norm("group_norm", "takes_the_mask_of_the_block_around"),
        old="        valid = current_valid(self, valid)\n",
        new="",
    ),
    _instance(
        id="instance-norm-running-variance-biased",
        family="running variance biased",
        tests=contract(
            "modules", "equals_torch_where_the_meaning_is_the_same", "instance_norm_running"
        ),
        old="_step(running_var, unbiased(var, n[:, None]), momentum, n > 1)",
        new="_step(running_var, var, momentum, n > 1)",
    ),
    _instance(
        id="instance-norm-single-position-in-the-variance",
        family="running variance biased",
        tests=_INSTANCE_GATHERED,
        old="unbiased(var, n[:, None]), momentum, n > 1)",
        new="unbiased(var, n[:, None]), momentum, n > 0)",
    ),
    _instance(
        id="instance-norm-empty-samples-counted",
        family="mask ignored in statistics",
        tests=_INSTANCE_GATHERED,
        old="    count = defined_B.sum()\n",
        new="    count = torch.tensor(len(defined_B))\n",
    ),
    Mutant(
        id="instance-norm-own-statistics-in-evaluation",
        family="option ignored",
        file="layers/instance_norm.py",
        tests=contract(
            "modules", "equals_torch_where_the_meaning_is_the_same", "instance_norm_eval"
        ),
        old="        own = self.training or not self.track_running_stats\n",
        new="        own = True\n",
    ),
    _channel_op(
        id="channel-layer-norm-over-the-last-axis",
        family="channel axis wrong",
        tests=norm("channel_layer_norm", "is_layer_norm_with_the_channels_moved"),
        old="        return x.movedim(self.channel_axis, -1)\n",
        new="        return x.movedim(1, -1)\n",
    ),
    _channel_op(
        id="channel-layer-norm-place-of-eps-ignored",
        family="option ignored",
        tests=norm("channel_layer_norm", "the_op_equals_the_formula"),
        old="LayerNormFormula(1, self.eps, self.eps_place, self.zero_centred)",
        new='LayerNormFormula(1, self.eps, "inside", self.zero_centred)',
    ),
    Mutant(
        id="channel-layer-norm-zero-centred-ignored",
        family="option ignored",
        file="layers/channel_layer_norm.py",
        tests=norm("channel_layer_norm", "options_of_the_layer_arrive"),
        old="            zero_centred=self.zero_centred,\n",
        new="",
    ),
)
