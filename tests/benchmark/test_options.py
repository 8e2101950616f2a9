"""What is typed, and what is run."""

from __future__ import annotations

import pytest
import torch

from normkit.benchmark import OPS, PEERS, TARGETS, Words, cells, target_cells
from normkit.benchmark.options import default_cells, missing_peers
from normkit.benchmark.targets import Target, measured
from normkit.errors import OptionError, choices

OP_NAMES, PEER_NAMES = choices(OPS), choices(n for n in PEERS if n != "normkit")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (Words(op="rmsnorm"), f"op must be {OP_NAMES}, or 'all'; op is 'rmsnorm'."),
        (Words(op=" , "), f"op must be {OP_NAMES}, or 'all'; op is empty."),
        (
            Words(dtype="int8"),
            "dtype must be 'float32', 'bfloat16', 'float16' or 'float64', or 'all'; "
            "dtype is 'int8'.",
        ),
        (
            Words(mode="backward"),
            "mode must be 'forward', 'forward_backward' or 'module', or 'all'; mode is 'backward'.",
        ),
        (Words(against="jax"), f"against must be {PEER_NAMES}, or 'all'; against is 'jax'."),
        (
            Words(shape="4096,1024x"),
            "shape must be sizes above 0 with x between, several with commas; "
            "shape is '1024x'. Try --shape 4096x1024.",
        ),
        (
            Words(shape="0x4"),
            "shape must be sizes above 0 with x between, several with commas; "
            "shape is '0x4'. Try --shape 4096x1024.",
        ),
        (
            Words(shape=""),
            "shape must be sizes above 0 with x between, several with commas; "
            "shape is ''. Try --shape 4096x1024.",
        ),
        (
            Words(op="channel_layer_norm", shape="4x8"),
            "channel_layer_norm needs a shape of 4 axes; shape is 4x8. Try --shape 8x96x56x56.",
        ),
        (
            Words(op="group_norm", shape="2x33x4x4"),
            "group_norm needs a shape of 4 axes, with channels that 32 groups share; "
            "shape is 2x33x4x4. Try --shape 8x96x56x56.",
        ),
        (
            Words(op="group_norm", mode="module"),
            "mode module needs an op with a module, 'layer_norm' or 'rms_norm'; "
            "op is 'group_norm'.",
        ),
        (
            Words(threads="two"),
            "threads must be a whole number above 0, several with commas; threads is 'two'.",
        ),
        (
            Words(threads="0"),
            "threads must be a whole number above 0, several with commas; threads is '0'.",
        ),
        (Words(device="tpu"), "device must be 'cpu' or 'cuda'; device is 'tpu'."),
    ],
)
def test_wrong_words(words: Words, text: str) -> None:
    """One sentence."""
    with pytest.raises(OptionError) as caught:
        cells(words)
    assert str(caught.value) == f"bench: {text}"


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said before anything is timed."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(OptionError) as caught:
        cells(Words(device="cuda"))
    assert str(caught.value) == "bench: device cuda needs a GPU that torch can use; it sees none."


def test_every_combination() -> None:
    """Ops, shapes, dtypes, modes and threads."""
    words = Words(
        op="layer_norm,group_norm", dtype="float16", mode="module,forward", threads="1,3",
        against="torch",
    )  # fmt: skip
    assert [cell.words for cell in cells(words)] == [
        "layer_norm forward float16 4096x1024, 1 thread",
        "layer_norm forward float16 4096x1024, 3 threads",
        "layer_norm module float16 1x4096, 1 thread",
        "layer_norm module float16 1x4096, 3 threads",
        "group_norm forward float16 8x96x56x56, 1 thread",
        "group_norm forward float16 8x96x56x56, 3 threads",
    ]
    assert {cell.against for cell in cells(words)} == {("torch",)}


def test_all() -> None:
    """Every op; every peer, the slow one too."""
    found = cells(Words(op="all", against="all", dtype="float32", mode="forward"))
    assert {cell.op.name for cell in found} == set(OPS)
    assert set(found[0].against) == set(PEERS) - {"normkit"}


def test_nothing_typed_is_the_default_table() -> None:
    """Against everybody who is quick to set up."""
    quick = tuple(name for name in PEERS if name not in ("normkit", "compile"))
    assert cells(Words()) == default_cells(quick, torch.get_num_threads())
    assert cells(Words(against="compile")) == default_cells(("compile",), torch.get_num_threads())


def test_the_default_table() -> None:
    """One long row with one thread and with all, one token, and both directions."""
    words = [cell.words for cell in default_cells(("torch",), 2)]
    assert "layer_norm forward float32 1x262144, 1 thread" in words
    assert "layer_norm forward float32 1x262144, 2 threads" in words
    assert "rms_norm module float32 1x4096, 2 threads" in words
    assert "add_rms_norm forward_backward bfloat16 4096x1024, 2 threads" in words
    assert len(words) == len(set(words)) == 18


def test_missing_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that were asked for."""
    monkeypatch.setattr("normkit.benchmark.peers.peer.find_spec", lambda name: None)
    assert missing_peers(["torch", "transformers"]) == [
        "transformers is missing: type pip install transformers"
    ]


def test_target_cells_hold_what_targets_need() -> None:
    """Each row once, against all whom its targets name, and nobody else."""
    found = target_cells(2)
    keys = {(c.op.name, c.mode, str(c.dtype), c.shape, c.threads) for c in found}
    assert len(keys) == len(found)
    for target in TARGETS:
        same = [
            c
            for c in found
            if (c.op.name, c.mode, str(c.dtype), c.shape)
            == (target.op, target.mode, f"torch.{target.dtype}", target.shape)
        ]
        if target.than == "1 thread":
            assert [c.threads for c in same] == [1, 2]
        elif target.than == "limit":
            assert same
        else:
            assert all(target.than in c.against for c in same)
    assert all(target.floor <= target.goal for target in TARGETS)


def row(implementation: str, threads: int, **values: object) -> dict[str, object]:
    """A row of a record."""
    return {
        "op": "rms_norm", "mode": "forward", "dtype": "float32", "shape": "4x8",
        "implementation": implementation, "threads": threads, "time_us_p50": 10.0,
        "fraction_of_limit": 0.8, "ours": None, **values,
    }  # fmt: skip


ROWS = [
    row("normkit", 1, time_us_p50=18.0, fraction_of_limit=0.9),
    row("normkit", 2),
    row("torch", 1, ours={"p50": 9.0}),
    row("torch", 2, ours={"p50": 3.0}),
]


@pytest.mark.parametrize(
    ("than", "rows", "found"),
    [
        ("torch", ROWS, 3.0),
        ("limit", ROWS, 0.8),
        ("1 thread", ROWS, 1.8),
        ("compile", ROWS, None),
        ("1 thread", ROWS[:1], None),
        ("1 thread", ROWS[1:], None),
        ("torch", [], None),
    ],
)
def test_measured_targets(than: str, rows: list[dict[str, object]], found: float | None) -> None:
    """From the rows with the most threads; what no row says is None."""
    target = Target(
        op="rms_norm", mode="forward", dtype="float32", shape=(4, 8), than=than, floor=1, goal=2
    )  # type: ignore[arg-type]
    assert measured(target, rows) == found
    other = Target(
        op="rms_norm", mode="forward", dtype="float32", shape=(4, 9), than=than, floor=1, goal=2
    )  # type: ignore[arg-type]
    assert measured(other, rows) is None
