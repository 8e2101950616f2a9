"""The compiled ops refuse tensors that do not go together: nothing is read beside a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from normkit.kernels import cpu

X = torch.randn(3, 8)
IMAGE = torch.randn(2, 4, 5)
SHORT, OTHER = torch.randn(2, 8), torch.randn(3, 8, dtype=torch.float64)
GRADIENT = "a gradient must have the shape and dtype"

Call = Callable[[Any], Any]
WRONG: dict[str, tuple[Call, str]] = {
    "integers": (
        lambda k: k.layer_norm(X.long(), None, None, 1, 1e-5, 0),
        "a dtype that the kernels do not know",
    ),
    "too few axes": (lambda k: k.rms_norm(X, None, None, 3, 1e-5, 0), "fewer axes"),
    "weight of another size": (
        lambda k: k.layer_norm(X, torch.ones(7), None, 1, 1e-5, 0),
        "a weight or bias has another size",
    ),
    "float64 weight beside float32": (
        lambda k: k.layer_norm(X, torch.ones(8).double(), None, 1, 1e-5, 0),
        "float64 beside a narrower x",
    ),
    "short dy": (lambda k: k.layer_norm_backward(SHORT, X, None, None, 1, 1e-5, 0, 1), GRADIENT),
    "dy of another dtype": (
        lambda k: k.rms_norm_backward(X.half(), X, None, None, 1, 1e-5, 0, 1),
        GRADIENT,
    ),
    "short residual": (
        lambda k: k.add_rms_norm(X, SHORT, None, None, X.clone(), 1, 1e-5, 0, 1.0, 0.0, 0),
        "the residual must have the shape of x",
    ),
    "narrow residual": (
        lambda k: k.add_rms_norm(
            X, torch.randn(3, 7), None, None, X.clone(), 1, 1e-5, 0, 1.0, 0.0, 0
        ),
        "the residual must have the shape of x",
    ),
    "short dh": (
        lambda k: k.add_layer_norm_backward(X, SHORT, X, None, None, 1, 1e-5, 0, 1.0, 0.0, 0, 1),
        GRADIENT,
    ),
    "adaptive, dy of another dtype": (
        lambda k: k.adaptive_layer_norm_backward(OTHER, X, X, None, 1, 1e-5, 1),
        GRADIENT,
    ),
    "rows of the scale do not divide": (
        lambda k: k.adaptive_rms_norm(X, SHORT, None, 1, 1e-5),
        "do not go with those of x",
    ),
    "gated, short dy": (
        lambda k: k.gated_rms_norm_backward(SHORT, X, X, None, None, 1, 1e-5, 0, 1 << 8, 1),
        GRADIENT,
    ),
    "gate of another shape": (
        lambda k: k.gated_rms_norm(X, SHORT, None, None, 1, 1e-5, 0, 1 << 8),
        "a gate must have the shape of x",
    ),
    "channels, short dy": (
        lambda k: k.channel_layer_norm_backward(IMAGE[:1], IMAGE, None, None, 1, 1e-5, 0, 1),
        GRADIENT,
    ),
    "groups, short dy": (
        lambda k: k.group_norm_backward(IMAGE[:1], IMAGE, None, None, None, 2, 1e-5, 1),
        GRADIENT,
    ),
    "groups, a mask of another size": (
        lambda k: k.group_norm(IMAGE, None, None, torch.ones(2, 4).bool(), 2, 1e-5),
        "a mask must have one value for each position",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_tensors_that_do_not_go_together_are_refused(name: str) -> None:
    call, text = WRONG[name]
    kernels = cpu.loaded()
    assert kernels is not None
    with pytest.raises(RuntimeError, match=text):
        call(kernels)
