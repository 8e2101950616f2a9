"""Bugs in the modules: options that do not arrive, buffers, counting, train and eval."""

from __future__ import annotations

from functools import partial

from tests.mutants.mutant import Mutant
from tests.mutants.selections import contract, norm

_layer_norm = partial(Mutant, file="layers/layer_norm.py")
_rms_norm = partial(Mutant, file="layers/rms_norm.py")
_batch_norm = partial(Mutant, file="layers/batch_norm.py")
_statistics = partial(Mutant, file="layers/statistics.py")

_ENCODER = ("tests/layers/test_encoder_layer.py::test_training_and_evaluation_agree",)

MUTANTS: tuple[Mutant, ...] = (
    _layer_norm(
        id="layer-norm-module-default-eps",
        family="eps of the wrong value",
        tests=norm("options", "options_arrive"),
        old="            self.eps,\n            eps_place",
        new="            1e-5,\n            eps_place",
    ),
    _layer_norm(
        id="layer-norm-module-forgets-eps-place",
        family="eps outside instead of inside",
        tests=norm("options", "options_arrive"),
        old="            eps_place=self.eps_place,\n",
        new="",
    ),
    _layer_norm(
        id="layer-norm-module-forgets-one-plus-w",
        family="1+w in half",
        tests=norm("options", "options_arrive"),
        old="            zero_centred=self.zero_centred,\n",
        new="",
    ),
    _rms_norm(
        id="rms-norm-module-forgets-rounding",
        family="rounding order swapped",
        tests=norm("options", "options_arrive"),
        old="            rounding=self.rounding,\n",
        new="",
    ),
    _rms_norm(
        id="rms-norm-module-forgets-output-dtype",
        family="output dtype wrong",
        tests=norm("options", "options_arrive"),
        old="            output_dtype=self.output_dtype,\n",
        new="",
    ),
    _rms_norm(
        id="rms-norm-module-forgets-fraction",
        family="fraction ignored",
        tests=norm("options", "options_arrive"),
        old="            fraction=self.fraction,\n",
        new="",
    ),
    _rms_norm(
        id="rms-norm-module-forgets-eps-place",
        family="eps outside instead of inside",
        tests=norm("options", "options_arrive"),
        old="            eps_place=self.eps_place,\n",
        new="",
    ),
    _rms_norm(
        id="rms-norm-module-starts-at-two",
        family="1+w in half",
        tests=norm("options", "a_new_zero_centred_layer_is_a_new_plain_one"),
        old="            nn.init.zeros_(self.weight)\n",
        new="            nn.init.ones_(self.weight)\n",
    ),
    _batch_norm(
        id="masked-batch-norm-axis-fixed",
        family="channel axis wrong",
        tests=norm("batch_norm", "masked_equals_the_gathered_computation"),
        old="self.normalised(x, self.channel_axis, current_valid(self, valid))",
        new="self.normalised(x, -1, current_valid(self, valid))",
    ),
    _batch_norm(
        id="masked-batch-norm-mask-ignored",
        family="mask ignored in statistics",
        tests=norm("batch_norm", "masked_equals_the_gathered_computation"),
        old="self.normalised(x, self.channel_axis, current_valid(self, valid))",
        new="self.normalised(x, self.channel_axis)",
    ),
    _statistics(
        id="buffers-fall-to-half",
        family="buffers falling to half",
        tests=contract("modules", "statistics_never_fall_below_float32"),
        old="torch.finfo(new.dtype).bits < 32:\n",
        new="torch.finfo(new.dtype).bits < 16:\n",
    ),
    _statistics(
        id="buffers-pass-through-half",
        family="buffers falling to half",
        tests=contract("modules", "statistics_never_fall_below_float32"),
        old="            module._buffers[name] = widened(old.to(new.device))\n",
        new="            module._buffers[name] = widened(new)\n",
    ),
    _statistics(
        id="buffers-start-in-half",
        family="buffers falling to half",
        tests=contract("modules", "statistics_never_fall_below_float32"),
        old="            module._buffers[name] = widened(buffer)\n",
        new="            module._buffers[name] = buffer\n",
    ),
    _statistics(
        id="running-statistics-in-training",
        family="train and eval swapped",
        tests=contract("modules", "equals_torch_where_the_meaning_is_the_same", "batch_norm"),
        old="        batch = self.training or self.running_mean is None\n",
        new="        batch = self.running_mean is None\n",
    ),
    _statistics(
        id="batch-statistics-in-eval",
        family="train and eval swapped",
        tests=contract("modules", "equals_torch_where_the_meaning_is_the_same", "batch_norm_eval"),
        old="        batch = self.training or self.running_mean is None\n",
        new="        batch = True\n",
    ),
    _statistics(
        id="cumulative-mean-one-batch-late",
        family="momentum swapped",
        tests=norm("batch_norm", "running_statistics_move_as_torchs"),
        old="        return 1.0 / (self.num_batches_tracked + 1).to(",
        new="        return 1.0 / self.num_batches_tracked.clamp(min=1).to(",
    ),
    _statistics(
        id="padding-alone-is-counted",
        family="mask ignored in statistics",
        tests=norm("batch_norm", "all_padding_touches_nothing"),
        old="self.num_batches_tracked.add_((out.positions > 0).to(torch.int64))",
        new="self.num_batches_tracked.add_(1)",
    ),
    Mutant(
        id="encoder-computes-layer-norm-instead",
        family="norm never called",
        file="layers/fast_path.py",
        tests=(f"{_ENCODER[0]}[post-RMSNorm, bias]",),
        old="    norm._forward_hooks = _NeverEmpty(norm._forward_hooks)\n",
        new="    norm._forward_hooks = OrderedDict(norm._forward_hooks)\n",
    ),
    _layer_norm(
        id="zero-centred-gain-read-as-plain-by-the-encoder",
        family="norm never called",
        tests=_ENCODER,
        old='eps_place != "inside" or zero_centred or ',
        new='eps_place != "inside" or ',
    ),
    Mutant(
        id="lengths-of-a-jagged-tensor-lost",
        family="nested tensors",
        file="functional/nested.py",
        tests=("tests/layers/test_encoder_layer.py::test_jagged_tensors",),
        old="nested_tensor_from_jagged(y, x.offsets(), x.lengths())",
        new="nested_tensor_from_jagged(y, x.offsets().flip(0).sub(len(y)).neg(), x.lengths())",
    ),
)
