"""Bugs in what all norms share: statistics, divisor, sums, range, the paths."""

from __future__ import annotations

from functools import partial

from tests.mutants.mutant import Mutant
from tests.mutants.selections import bounds, contract, norm

_shared = partial(Mutant, file="reference/standardize.py")
_range = partial(Mutant, file="ops/precision.py")

MUTANTS: tuple[Mutant, ...] = (
    _shared(
        id="eps-ignored",
        family="eps ignored",
        tests=bounds("layer_norm", "float32", "tiny"),
        old="        return (square + eps).sqrt()\n",
        new="        return square.sqrt()\n",
    ),
    _shared(
        id="eps-outside",
        family="eps outside instead of inside",
        tests=bounds("layer_norm", "float32", "tiny"),
        old="        return (square + eps).sqrt()\n",
        new="        return root(square) + eps\n",
    ),
    _shared(
        id="eps-inside-when-outside",
        family="eps outside instead of inside",
        tests=bounds("rms_outside", "float32", "tiny"),
        old="        return root(square) + eps\n",
        new="        return (square + eps).sqrt()\n",
    ),
    _shared(
        id="eps-clamps-the-square",
        family="eps outside instead of inside",
        tests=bounds("rms_clamp", "float32", "tiny"),
        old=(
            "    return torch.maximum(root(square), "
            "torch.as_tensor(eps, dtype=square.dtype).to(square.device))\n"
        ),
        new="    return square.clamp(min=eps).sqrt()\n",
    ),
    _shared(
        id="variance-over-n-minus-1",
        family="n-1",
        tests=bounds("layer_norm", "float32", "unit"),
        old=("    return row_sum(_only(x_MN, measured_N).square()) / _count(x_MN, measured_N)\n"),
        new=(
            "    n = _count(x_MN, measured_N)\n"
            "    n = max(n - 1, 1) if isinstance(n, int) else (n - 1).clamp(min=1)\n"
            "    return row_sum(_only(x_MN, measured_N).square()) / n\n"
        ),
    ),
    _shared(
        id="last-column-out-of-the-square",
        family="last column dropped",
        tests=bounds("layer_norm", "float32", "unit"),
        old="    return row_sum(_only(x_MN, measured_N).square()) / _count(x_MN, measured_N)\n",
        new=(
            "    return row_sum(_only(x_MN, measured_N).square()[..., :-1])"
            " / _count(x_MN, measured_N)\n"
        ),
    ),
    _shared(
        id="last-column-out-of-the-mean",
        family="last column dropped",
        tests=bounds("layer_norm", "float32", "unit"),
        old="    rest = row_sum(_only(around, measured_N)) / count\n",
        new="    rest = row_sum(_only(around, measured_N)[..., :-1]) / count\n",
    ),
    _shared(
        id="last-column-out-of-the-pull",
        family="last column dropped",
        tests=bounds("rms_norm", "float32", "unit"),
        old="row_sum(g_MN * x_hat) / count)",
        new="row_sum((g_MN * x_hat)[..., :-1]) / count)",
    ),
    _shared(
        id="rest-of-a-wide-row-dropped",
        family="last column dropped",
        tests=bounds("layer_norm", "float32", "unit"),
        old="return total if full == width else total + t_MN[..., full:].sum(-1, keepdim=True)\n",
        new="return total\n",
    ),
    _shared(
        id="one-pass-variance",
        family="one-pass variance",
        tests=bounds("layer_norm", "float32", "offset"),
        old=(
            "    if center:\n"
            "        x_MN, _ = centred(x_MN, measured_N)\n"
            "    return x_MN, divisor(mean_square(x_MN, measured_N), eps, eps_place)\n"
        ),
        new=(
            "    square = mean_square(x_MN, measured_N)\n"
            "    if center:\n"
            "        x_MN, mean = centred(x_MN, measured_N)\n"
            "        square = (square - mean.square()).clamp(min=0)\n"
            "    return x_MN, divisor(square, eps, eps_place)\n"
        ),
    ),
    _shared(
        id="pull-of-the-spread-dropped",
        family="projection term dropped",
        tests=bounds("rms_norm", "float32", "unit"),
        old="    pull = x_hat * (row_sum(g_MN * x_hat) / count)\n",
        new="    pull = torch.zeros_like(x_hat)\n",
    ),
    _shared(
        id="pull-of-the-mean-dropped",
        family="projection term dropped",
        tests=bounds("layer_norm", "float32", "unit"),
        old="        pull = pull + row_sum(g_MN) / count\n",
        new="        pass\n",
    ),
    _shared(
        id="outside-pulls-like-inside",
        family="eps outside instead of inside",
        tests=bounds("rms_outside", "float32", "tiny"),
        old='(k if eps_place == "outside" else (s >= eps).to(k.dtype))',
        new='(1 if eps_place == "outside" else (s >= eps).to(k.dtype))',
    ),
    _shared(
        id="clamped-rows-are-pulled",
        family="eps outside instead of inside",
        tests=contract("derivatives", "first_and_second_derivatives", "rms_norm_clamp"),
        old="(s >= eps).to(k.dtype))",
        new="1)",
    ),
    _shared(
        id="statistics-constant-in-backward",
        family="higher order wrong",
        tests=contract("derivatives", "first_and_second_derivatives", "layer_norm"),
        old="    x_hat = x_MN / divisor_M1\n    count",
        new="    divisor_M1 = divisor_M1.detach()\n    x_hat = x_MN / divisor_M1\n    count",
    ),
    _shared(
        id="root-infinite-slope-at-zero",
        family="NaN from a constant row",
        tests=norm("extremes", "functional_gradient_of_a_row_of_zeros[outside-rms_norm]"),
        old="    return torch.where(zero, 0, torch.where(zero, 1, square).sqrt())\n",
        new="    return torch.where(zero, 0, square.sqrt())\n",
    ),
    _shared(
        id="last-row-out-of-dgamma",
        family="last row missing in dgamma",
        tests=bounds("layer_norm", "float32", "unit"),
        old="torch.nn.functional.pad(t_MN, (0, 0, 0, -rows % block))",
        new="torch.nn.functional.pad(t_MN[:-1], (0, 0, 0, -max(rows - 1, 0) % block))",
    ),
    _shared(
        id="last-block-out-of-dgamma",
        family="last row missing in dgamma",
        tests=norm("reports_numerics", "the_last_of_more_than_65536_rows"),
        old="        even = torch.nn.functional.pad(partials, (0, 0, 0, len(partials) % 2))\n",
        new="        even = partials[: len(partials) - len(partials) % 2]\n",
    ),
    Mutant(
        id="last-piece-out-of-dgamma",
        family="last row missing in dgamma",
        file="ops/rows.py",
        tests=norm("reports_numerics", "the_last_of_more_than_65536_rows"),
        old="    return functools.reduce(torch.add, partials)\n",
        new="    return functools.reduce(torch.add, partials[:-1] or partials)\n",
    ),
    _shared(
        id="dgamma-in-half",
        family="dgamma in half",
        tests=bounds("layer_norm", "float32", "unit"),
        old="    return partials.sum(0)  # of one, or of none\n",
        new="    return partials.half().sum(0).to(t_MN.dtype)\n",
    ),
    _shared(
        id="blocks-follow-the-rows",
        family="rows depend on each other",
        tests=contract("forms", "rows_with_zero_gradient_change_no_bit"),
        old="    block = max(1, _BLOCK_ELEMENTS // width)\n",
        new="    block = max(1, rows // 3)\n",
    ),
    _shared(
        id="rstd-in-half",
        family="rstd in half",
        tests=bounds("layer_norm", "float32", "unit"),
        old="    return x_MN / divisor_M1\n",
        new="    return x_MN / divisor_M1.to(torch.bfloat16).to(x_MN.dtype)\n",
    ),
    _shared(
        id="rstd-in-half-in-backward",
        family="rstd in half",
        tests=bounds("layer_norm", "float32", "unit"),
        old="    return (g_MN - pull) / divisor_M1, x_hat\n",
        new="    return (g_MN - pull) / divisor_M1.to(torch.bfloat16).to(x_MN.dtype), x_hat\n",
    ),
    _shared(
        id="rstd-in-float32",
        family="rstd in half",
        tests=bounds("layer_norm", "float64", "unit"),
        old="    return x_MN / divisor_M1\n",
        new="    return x_MN / divisor_M1.float().to(x_MN.dtype)\n",
    ),
    _range(
        id="huge-rows-not-scaled",
        family="range",
        tests=bounds("layer_norm", "float64", "huge"),
        old="keepdim=True) > limit\n",
        new="keepdim=True) > torch.inf\n",
    ),
    _range(
        id="eps-not-scaled-with-its-row",
        family="range",
        tests=norm("extremes", "huge_float64_rows_keep_their_value"),
        old='    scaled_eps = eps * (scale.square() if eps_place == "inside" else scale)\n',
        new="    scaled_eps = eps * torch.ones_like(scale)\n",
    ),
    _range(
        id="eps-of-a-huge-row-vanishes",
        family="range",
        tests=norm("extremes", "a_huge_constant_channel_with_padding_gives_the_bias"),
        old="        scaled_eps = scaled_eps.clamp(min=torch.finfo(wide_MN.dtype).tiny)\n",
        new="        pass\n",
    ),
    _range(
        id="gradient-of-a-huge-row-not-scaled",
        family="range",
        tests=bounds("layer_norm", "float64", "huge"),
        old="        return dx_MN if self.scale_M1 is None else dx_MN * self.scale_M1\n",
        new="        return dx_MN\n",
    ),
    _shared(
        id="mean-rounded-once",
        family="constant rows",
        tests=bounds("layer_norm", "float64", "offset"),
        old="    return around - rest, mean + rest\n",
        new="    return around, mean\n",
    ),
    _range(
        id="computed-in-float32",
        family="rstd in half",
        tests=bounds("layer_norm", "float64", "unit"),
        old="    return torch.float32 if x.device.type in _WITHOUT_FLOAT64 else torch.float64\n",
        new="    return torch.float32\n",
    ),
    Mutant(
        id="x-read-as-contiguous",
        family="wrong stride",
        tests=contract("forms", "strides_change_no_bit", "layer_norm"),
        file="ops/rows.py",
        old="    return x.reshape(math.prod(x.shape[:split]), math.prod(x.shape[split:]))\n",
        new=(
            "    rows, width = math.prod(x.shape[:split]), math.prod(x.shape[split:])\n"
            "    return x.as_strided((rows, width), (width, 1))\n"
        ),
    ),
    Mutant(
        id="dy-overwritten",
        family="dy overwritten",
        tests=contract("forms", "incoming_gradient_and_input_are_not_written", "layer_norm"),
        file="ops/formula.py",
        old="            found = formula.run_backward(given, tensors, needed)\n",
        new=(
            "            found = formula.run_backward(given, tensors, needed)\n"
            "            given[0].detach().zero_()\n"
        ),
    ),
    Mutant(
        id="forward-mode-unseen",
        family="forward mode",
        tests=contract("derivatives", "forward_mode_outside_torch_func", "layer_norm"),
        file="ops/path.py",
        old="    if torch._C._are_functorch_transforms_active() or _forward_mode():\n",
        new="    if torch._C._are_functorch_transforms_active():\n",
    ),
    Mutant(
        id="bias-lost-when-compiled",
        family="compiled path",
        tests=contract("graphs", "compiles_whole_and_gives_the_same", "layer_norm"),
        file="ops/registration.py",
        old="kind.of(*args[count:]).run(*args[:count])",
        new="kind.of(*args[count:]).run(*args[:2], None, *args[3:count])",
    ),
    Mutant(
        id="gain-lost-in-compiled-backward",
        family="compiled path",
        tests=contract("graphs", "compiled_gradients", "layer_norm"),
        file="ops/registration.py",
        old="        gradients, tensors, needed = args[:given], args[given:count], args[count]\n",
        new=(
            "        gradients, needed = args[:given], args[count]\n"
            "        ones = torch.ones_like(args[given + 1])\n"
            "        tensors = (args[given], ones, *args[given + 2 : count])\n"
        ),
    ),
)
