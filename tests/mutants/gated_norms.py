"""Bugs in gated RMSNorm, the adaptive norms, LayerNorm LSTM and GRU."""

from __future__ import annotations

from functools import partial

from tests.mutants.mutant import Mutant
from tests.mutants.selections import bounds, norm

_gated = partial(Mutant, file="reference/gated_rms_norm.py")
_gated_op = partial(Mutant, file="ops/gated_rms_norm.py")
_adaptive = partial(Mutant, file="reference/adaptive.py")
_adaptive_op = partial(Mutant, file="ops/adaptive.py")
_adaptive_layer = partial(Mutant, file="layers/adaptive.py")
_cells = partial(Mutant, file="layers/recurrent_cells.py")
_recurrent = partial(Mutant, file="layers/sequences.py")

MUTANTS: tuple[Mutant, ...] = (
    _gated(
        id="gate-before-taken-as-after",
        family="option ignored",
        tests=norm("gated_rms_norm", "rounding_as_in_public_code"),
        old='    before = how.place == "before"\n    x_hat = standardize(',
        new="    before = False\n    x_hat = standardize(",
    ),
    _gated(
        id="slope-of-silu-without-its-second-term",
        family="derivative of the gate wrong",
        tests=norm("gated_rms_norm", "within_the_bound_in_every_regime"),
        old="s * (1 + gate * (1 - s)) * scale",
        new="s * scale",
    ),
    _gated(
        id="gate-forgotten-in-dweight",
        family="gate lost in backward",
        tests=norm("gated_rms_norm", "within_the_bound_in_every_regime"),
        old="column_sum((d_gained * x_hat).flatten(1))",
        new="column_sum((dy_MGK * x_hat).flatten(1))",
    ),
    _gated(
        id="gated-weight-forgotten-in-dgate",
        family="gain lost in backward",
        tests=norm("gated_rms_norm", "within_the_bound_in_every_regime"),
        old="    return du, dy_MGK * y * slope, dweight, dbias\n",
        new="    return du, dy_MGK * x_hat * slope, dweight, dbias\n",
    ),
    _gated(
        id="gated-value-not-rounded-before-the-gate",
        family="rounding order swapped",
        tests=norm("gated_rms_norm", "rounding_as_in_public_code"),
        old="    return y if before else rounded(y, how.round_gained_to) * a\n",
        new="    return y if before else y * a\n",
    ),
    _gated_op(
        id="groups-ignored",
        family="wrong group",
        tests=norm("gated_rms_norm", "groups_are_contiguous_and_alone"),
        old="        return t.reshape(*t.shape[:-1], self.groups, t.shape[-1] // self.groups)\n",
        new="        return t.reshape(*t.shape[:-1], 1, t.shape[-1])\n",
    ),
    _gated_op(
        id="gated-product-overflows",
        family="row not scaled into range",
        tests=norm("gated_rms_norm", "a_product_beyond_float64_keeps_its_value"),
        old='        if self.gate_place == "before" and ',
        new='        if self.gate_place == "never" and ',
    ),
    _adaptive(
        id="adaptive-scale-lost-in-backward",
        family="gain lost in backward",
        tests=bounds("adaptive_rms", "float32", "unit"),
        old="standardize_backward(dy_MN * (1 + scale_MN), x_MN,",
        new="standardize_backward(dy_MN, x_MN,",
    ),
    _adaptive_op(
        id="adaptive-shift-gradient-is-dy-itself",
        family="dy overwritten",
        tests=norm("adaptive_layer_norm", "the_gradient_of_the_shift_is_a_tensor_of_its_own"),
        old="dy = dy_MN.to(dtype, copy=True)",
        new="dy = dy_MN.to(dtype)",
    ),
    Mutant(
        id="adaptive-rms-norm-centred",
        file="ops/adaptive_rms_norm.py",
        family="centred by mistake",
        tests=norm("adaptive_rms_norm"),
        old="    center: ClassVar[bool] = False\n",
        new="    center: ClassVar[bool] = True\n",
    ),
    _adaptive_layer(
        id="shift-and-scale-swapped",
        family="order of parts",
        tests=norm("adaptive_layer_norm", "the_weights_of_a_dit_block_fit"),
        old="        shift, scale, *gate = (\n",
        new="        scale, shift, *gate = (\n",
    ),
    _adaptive_layer(
        id="zero-init-undone-by-a-reset",
        family="start wrong",
        tests=norm("adaptive_layer_norm", "zero_init_survives_a_reset_of_every_module"),
        old="        if not self.zero_init:\n",
        new="        if True:\n",
    ),
    _cells(
        id="recurrent-norm-shared",
        family="shared norm",
        tests=norm("recurrent", "every_norm_has_a_gain_of_its_own_that_learns"),
        old="        recurrent = self.norm_hh(nn.functional.linear(h, self.weight_hh))\n",
        new="        recurrent = self.norm_ih(nn.functional.linear(h, self.weight_hh))\n",
    ),
    _cells(
        id="cell-state-normalised-for-the-next-step-too",
        family="norm in the wrong place",
        tests=norm("recurrent", "the_lstm_cell_is_that_of_the_paper"),
        old="        return o.sigmoid() * self.norm_c(c).tanh(), c\n",
        new="        return o.sigmoid() * self.norm_c(c).tanh(), self.norm_c(c)\n",
    ),
    _cells(
        id="reset-gate-before-the-norm",
        family="norm in the wrong place",
        tests=norm("recurrent", "the_gru_cell_is_that_of_the_paper"),
        old="        n = (n + (r + hr).sigmoid() * hn).tanh()\n",
        new="        n = (n + self.norm_hn((r + hr).sigmoid() * hn)).tanh()\n",
    ),
    _recurrent(
        id="state-moves-on-over-padding",
        family="mask ignored",
        tests=norm("recurrent", "a_padded_sequence_is_that_sequence_alone"),
        old="torch.where(real, new, old)",
        new="torch.where(real, new, new)",
    ),
    _recurrent(
        id="padding-reaches-the-projection",
        family="mask ignored in backward",
        tests=norm("recurrent", "a_padded_sequence_is_that_sequence_alone"),
        old="        if mask is not None:\n            x_TBI = torch.where(mask, x_TBI, 0)\n",
        new="",
    ),
    _recurrent(
        id="dropout-after-the-last-layer",
        family="dropout in the wrong place",
        tests=norm("recurrent", "dropout_stands_between_layers_and_in_training_only"),
        old="            if layer < self.num_layers - 1 and self.dropout:\n",
        new="            if self.dropout:\n",
    ),
)
