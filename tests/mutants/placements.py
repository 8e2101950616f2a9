"""Bugs in the blocks: norms and scales at the wrong place, constants, roles, streams, starts."""

from __future__ import annotations

from functools import partial

from tests.mutants.mutant import Mutant
from tests.mutants.selections import blocks, straight_line

_residual = partial(Mutant, file="blocks/placement.py")
_attention = partial(Mutant, file="blocks/attention.py")
_ffn = partial(Mutant, file="blocks/ffn.py")
_streams = partial(Mutant, file="blocks/streams.py")
_constants = partial(Mutant, file="spec/constants.py")
_init = partial(Mutant, file="blocks/init.py")
_block = partial(Mutant, file="blocks/block.py")
_models = partial(Mutant, file="blocks/encoder_decoder.py")
_names = partial(Mutant, file="layers/setup.py")

MUTANTS: tuple[Mutant, ...] = (
    _residual(
        id="deepnorm-alpha-on-the-branch",
        family="alpha on the branch",
        tests=straight_line("deepnorm"),
        old="total = _times(self.skip_scale, x_BTD) + y_BTD",
        new="total = x_BTD + _times(self.skip_scale, y_BTD)",
    ),
    _residual(
        id="layer-scale-on-the-skip",
        family="scale on the skip",
        tests=straight_line("layer_scale"),
        old="        return _times(self.branch_scale, self.dropout(y))",
        new="        return self.dropout(y) + _times(self.branch_scale, x_BTD) - x_BTD",
    ),
    _residual(
        id="layer-scale-is-one-number",
        family="learned scale of the wrong shape",
        tests=blocks("start", "parameter_count[layer_scale]"),
        old='shape = (width,) if scale.rule == "learned_vector" else ()',
        new="shape = ()",
    ),
    _residual(
        id="rezero-starts-at-one",
        family="start of a learned scale",
        tests=blocks("start", "rezero_trains_its_scales_first"),
        old="value = table if scale.value is None else scale.value",
        new="value = scale.value or (1.0 if scale.value == 0 else table)",
    ),
    _residual(
        id="rezero-scale-is-a-constant",
        family="learned scale that is not learned",
        tests=blocks("start", "parameter_count[rezero]"),
        old="    return nn.Parameter(torch.full(shape, value))",
        new="    return value",
    ),
    _residual(
        id="scale-on-every-branch",
        family="branches ignored",
        tests=blocks("placement", "constant_scales_act_where_they_are_named"),
        old="return _factor(scale, table, width) if branch in scale.branches else 1.0",
        new="return _factor(scale, table, width)",
    ),
    _residual(
        id="norm-out-before-the-branch",
        family="norm at the wrong place",
        tests=straight_line("sandwich"),
        old="y = f(y)\n        y = y if self.norm_out is None else self.norm_out(y, valid_BT)",
        new="y = y if self.norm_out is None else self.norm_out(y, valid_BT)\n        y = f(y)",
    ),
    _residual(
        id="norm-on-the-branch-instead-of-the-sum",
        family="norm at the wrong place",
        tests=straight_line("post"),
        old="return total if self.norm_sum is None else self.norm_sum(total, valid_BT)",
        new="return total if self.norm_sum is None else x_BTD + self.norm_sum(y_BTD, valid_BT)",
    ),
    _residual(
        id="residual-second-stream-adds-the-normalised",
        family="second stream",
        tests=straight_line("residual"),
        old="second_BTD = x.second_BTD + _times(self.second_stream_scale, y_BTD)",
        new="second_BTD = x.second_BTD + self.join(x.main_BTD, y_BTD, valid_BT)",
    ),
    _residual(
        id="residual-second-stream-not-scaled",
        family="second stream",
        tests=blocks("placement", "two_streams"),
        old="second_BTD = x.second_BTD + _times(self.second_stream_scale, y_BTD)",
        new="second_BTD = x.second_BTD + y_BTD",
    ),
    _streams(
        id="residual-second-stream-without-its-norm",
        family="second stream",
        tests=straight_line("residual"),
        old="y = last if final_norm is None else final_norm(last, valid_BT)",
        new="y = last",
    ),
    _streams(
        id="residual-norm-on-the-first-stream",
        family="second stream",
        tests=straight_line("residual"),
        old="last = stream.second_BTD if isinstance(stream, TwoStreams) else stream",
        new="last = stream.main_BTD if isinstance(stream, TwoStreams) else stream",
    ),
    _streams(
        id="residual-first-stream-forgotten-at-the-end",
        family="second stream",
        tests=straight_line("residual"),
        old="return stream.main_BTD + y if isinstance(stream, TwoStreams) else y",
        new="return y",
    ),
    _streams(
        id="residual-start-of-the-second-stream-not-scaled",
        family="second stream",
        tests=blocks("placement", "second_stream_scale_is_taken_out_by_the_final_norm"),
        old="return TwoStreams(x_BTD, spec.second_stream_scale * x_BTD)",
        new="return TwoStreams(x_BTD, x_BTD)",
    ),
    _attention(
        id="normformer-head-scale-forgotten",
        family="head scale",
        tests=straight_line("normformer"),
        old="        if self.head_scale is not None:\n",
        new="        if False and self.head_scale is not None:\n",
    ),
    _attention(
        id="normformer-head-scale-after-the-output-matrix",
        family="head scale",
        tests=straight_line("normformer"),
        old="        out: Tensor = self.output(y_BTD)\n        return out\n",
        new=(
            "        out: Tensor = self.output(y_BTD)\n"
            "        if self.head_scale is not None:\n"
            "            s = self.head_scale.repeat_interleave(out.shape[-1] // self.heads)\n"
            "            out = out * s / s.detach().mean()\n"
            "        return out\n"
        ),
    ),
    _attention(
        id="sub-ln-norm-after-the-output-matrix",
        family="inner norm after the last matrix",
        tests=straight_line("sub_ln"),
        old=(
            "            y_BTD = self.norm_inside(y_BTD, valid_BT)\n"
            "        out: Tensor = self.output(y_BTD)\n        return out\n"
        ),
        new=(
            "            return self.norm_inside(self.output(y_BTD), valid_BT)\n"
            "        out: Tensor = self.output(y_BTD)\n        return out\n"
        ),
    ),
    _attention(
        id="cross-attention-reads-pads",
        family="mask ignored",
        tests=blocks("encoder_decoder", "masked_statistics_of_each_stack"),
        old="mask = (real | ~real.any(2, keepdim=True)).transpose(2, 3)",
        new="mask = torch.ones_like(real).transpose(2, 3)",
    ),
    _attention(
        id="cross-attention-to-nothing",
        family="softmax over nothing",
        tests=blocks("encoder_decoder", "source_without_a_real_token_is_read_as_zeros"),
        old="            v = v.masked_fill(~real, 0.0)\n",
        new="",
    ),
    _attention(
        id="cross-attention-key-and-value-swapped",
        family="slices of a fused matrix",
        tests=straight_line("pre", both=True),
        old="k, v = self.split(self.key_value(memory.encoded_BSD), 2)",
        new="v, k = self.split(self.key_value(memory.encoded_BSD), 2)",
    ),
    _attention(
        id="qk-norm-forgotten-in-cross-attention",
        family="norm left out",
        tests=blocks("attention", "qk_norm[cross]"),
        old="(memory.encoded_BSD), 2)\n        q, k = self.normed(q, k)",
        new="(memory.encoded_BSD), 2)",
    ),
    _ffn(
        id="inner-norm-before-the-activation",
        family="norm at the wrong place",
        tests=straight_line("normformer"),
        old="        y: Tensor = ACTIVATIONS[self.activation](self.first(x_BTD))\n"
        "        if self.norm_inside is not None:\n"
        "            y = self.norm_inside(y, valid_BT)\n",
        new="        y: Tensor = self.first(x_BTD)\n"
        "        if self.norm_inside is not None:\n"
        "            y = self.norm_inside(y, valid_BT)\n"
        "        y = ACTIVATIONS[self.activation](y)\n",
    ),
    _ffn(
        id="inner-norm-without-the-mask",
        family="mask ignored",
        tests=straight_line("sub_ln", norm="masked_batch_norm"),
        old="y = self.norm_inside(y, valid_BT)",
        new="y = self.norm_inside(y)",
    ),
    _block(
        id="inner-norm-in-cross-attention",
        family="branches ignored",
        tests=straight_line("sub_ln", both=True),
        old='inner = _inside(config, "cross_attention", width)',
        new='inner = _inside(config, "attention", width)',
    ),
    _block(
        id="cross-attention-shares-a-residual",
        family="shared norm",
        tests=straight_line("pre", both=True),
        old="x = self.around_cross_attention(x, read, valid_BT)",
        new="x = self.around_attention(x, read, valid_BT)",
    ),
    _models(
        id="decoder-reads-the-source-without-its-mask",
        family="mask ignored",
        tests=blocks("encoder_decoder", "masked_statistics_of_each_stack"),
        old="memory = Memory(self.encoder(source_BS, source_valid_BS), source_valid_BS)",
        new="memory = Memory(self.encoder(source_BS, source_valid_BS))",
    ),
    _models(
        id="encoder-does-not-know-of-the-decoder",
        family="constants of a single stack",
        tests=straight_line("deepnorm", both=True),
        old="self.encoder = Encoder(encoder, decoder_layers=decoder.depth)",
        new="self.encoder = Encoder(encoder)",
    ),
    _constants(
        id="sub-ln-gamma-of-n-instead-of-2n",
        family="wrong depth in a constant",
        tests=blocks("constants", "sub_ln_of_one_stack"),
        old="decoder=math.sqrt(math.log(2 * m)) if m else None",
        new="decoder=math.sqrt(math.log(m + 1e-9)) if m else None",
    ),
    _constants(
        id="sub-ln-depths-swapped",
        family="wrong depth in a constant",
        tests=blocks("constants", "sub_ln_of_two_stacks"),
        old="math.sqrt(math.log(3 * m) * math.log(2 * n) / 3)",
        new="math.sqrt(math.log(3 * n) * math.log(2 * m) / 3)",
    ),
    _constants(
        id="deepnorm-decoder-as-if-alone",
        family="constants of a single stack",
        tests=blocks("constants", "two_stacks"),
        old="decoder = AlphaBeta(alpha=(3 * m) ** 0.25, beta=(12 * m) ** -0.25)",
        new="decoder = _one_stack(m)",
    ),
    _constants(
        id="stack-takes-the-other-side",
        family="wrong depth in a constant",
        tests=blocks("init", "stack_constants"),
        old="n, m = (partner_depth, depth) if causal else (depth, partner_depth)",
        new="n, m = (depth, depth) if partner_depth else (0, depth) if causal else (depth, 0)",
    ),
    _constants(
        id="layer-scale-table-off-by-one",
        family="wrong depth in a constant",
        tests=blocks("constants", "layer_scale_start"),
        old="    if depth <= 18:",
        new="    if depth < 18:",
    ),
    _init(
        id="deepnorm-beta-on-query-and-key",
        family="gain on the wrong role",
        tests=blocks("init", "scales_ffn_value_output_alone"),
        old="query_key=here[init.query_key]",
        new="query_key=here[init.value]",
    ),
    _init(
        id="sub-ln-scales-cross-attention",
        family="gain on the wrong role",
        tests=blocks("init", "cross_attention"),
        old='cross = {**here, "sub_ln": 1.0}',
        new="cross = here",
    ),
    _init(
        id="deepnorm-leaves-cross-attention",
        family="gain on the wrong role",
        tests=blocks("init", "cross_attention"),
        old='cross = {**here, "sub_ln": 1.0}',
        new='cross = {**here, "sub_ln": 1.0, "deepnorm": 1.0}',
    ),
    _init(
        id="sub-ln-gamma-forgotten",
        family="gain on the wrong role",
        tests=blocks("init", "scales_ffn_value_output_alone"),
        old='"sub_ln": constants.gamma}',
        new='"sub_ln": 1.0}',
    ),
    _init(
        id="cross-attention-value-keeps-the-gain-of-keys",
        family="slices of a fused matrix",
        tests=blocks("init", "cross_attention"),
        old="init_linear_(module.key_value, gains.query_key, gains.cross_value)",
        new="init_linear_(module.key_value, gains.cross_value, gains.query_key)",
    ),
    _init(
        id="last-gain-of-a-zero-centred-norm",
        family="1+w",
        tests=blocks("start", "last_gain_of_a_zero_centred_norm"),
        old="weight.copy_(factor * (weight + shift) - shift)",
        new="weight.copy_(factor * weight)",
    ),
    _init(
        id="zero-init-forgets-the-feed-forward",
        family="start of a branch",
        tests=blocks("start", "zero_init_branches_starts_as_the_identity"),
        old="            nn.init.zeros_(module.second.weight)\n",
        new="            pass\n",
    ),
    _init(
        id="zero-init-of-the-first-matrix",
        family="start of a branch",
        tests=blocks("start", "zero_init_branches_starts_as_the_identity"),
        old="            nn.init.zeros_(module.second.weight)\n",
        new="            nn.init.zeros_(module.first.weight)\n",
    ),
    _names(
        id="names-by-substring",
        family="names",
        tests=("tests/layers/test_setup.py::test_left_without_a_sibling",),
        old="if any(_shape(value) is not None and _shape(value) == _shape(other)",
        new="if any(True",
    ),
    _names(
        id="names-two-keys-onto-one",
        family="names",
        tests=("tests/layers/test_setup.py::test_two_keys_never_become_one",),
        old="        if new in taken:\n",
        new="        if new == old:\n",
    ),
    _names(
        id="names-one-added-in-half",
        family="1+w",
        tests=("tests/layers/test_setup.py::test_the_one_is_added_in_float32_or_better",),
        old="gain.to(torch.promote_types(gain.dtype, torch.float32)) + shift",
        new="gain + shift",
    ),
    _names(
        id="names-one-taken-instead-of-added",
        family="1+w",
        tests=("tests/layers/test_setup.py::test_gains_are_converted",),
        old="(-1 if zero_centred else 1)",
        new="(1 if zero_centred else -1)",
    ),
)
