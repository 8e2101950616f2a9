"""``normkit bench``: how fast and how exact each norm is here, beside torch and others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from normkit.cli.guard import guarded
from normkit.errors import OptionError, sentence

WIDTH = 150  # of the table where a pipe has no width of its own


def register(app: typer.Typer) -> None:
    """Add the verb to the application."""
    app.command(name="bench")(guarded(bench))


def bench(
    op: Annotated[
        str | None,
        typer.Option(help="Norms with commas between, all, or import.", metavar="A,B"),
    ] = None,
    shape: Annotated[
        str | None, typer.Option(help="Shapes of x, such as 4096x1024.", metavar="NxM,..")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float32, bfloat16, float16, float64.", metavar="A,B")
    ] = None,
    mode: Annotated[
        str | None, typer.Option(help="forward, forward_backward, module.", metavar="A,B")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="torch, compile, formula, script, onnxruntime, openvino, transformers or all. "
            "Default: all but compile, which takes long to set up.",
            metavar="A,B",
        ),
    ] = None,
    threads: Annotated[
        str | None, typer.Option(help="Threads of everybody, such as 1,2.", metavar="N,M")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    model: Annotated[
        str | None,
        typer.Option(
            help="Time the norms inside a training step instead: build() returns a model and its "
            "inputs.",
            metavar="FILE.py:build",
        ),
    ] = None,
    targets: Annotated[
        bool, typer.Option("--targets", help="Run what docs/performance.md has targets for.")
    ] = False,
    json: Annotated[
        Path | None, typer.Option(help="Write the record of the run to this file.", metavar="FILE")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write a page to this file.", metavar="FILE")
    ] = None,
) -> None:
    """Time norms beside torch and others, against the memory limit, and measure their errors.

    Without arguments a table of common norms, in less than two minutes on an idle machine.
    """
    from normkit import benchmark
    from normkit.cli import bench_table

    # A pipe has no width of its own, and the table wants more than rich's 80 columns.
    console = Console(markup=False, emoji=False, highlight=False)
    console = console if console.is_terminal else Console(width=WIDTH, markup=False, emoji=False)
    for option, file in (("--json", json), ("--page", page)):
        _check_folder(option, file)
    words = benchmark.Words(op, shape, dtype, mode, against, threads, device)
    if op == "import" or model is not None:
        others = [None if model is None else op, targets or None, *words.others(), json, page]
        _check_alone("--op import" if model is None else "--model", others)
        if model is None:
            console.print(bench_table.import_lines(benchmark.time_import()))
        else:
            console.print(bench_table.model_table(benchmark.time_model(model)))
        return
    if targets:
        _check_alone("--targets", [op, *words.others()])
    cells = benchmark.target_cells(torch.get_num_threads()) if targets else benchmark.cells(words)
    start = time.perf_counter()
    report = benchmark.run(cells, device=device, tell=lambda text: _tell(start, text))
    record = report.record()
    if json is not None:
        benchmark.write(report, json)
    if page is not None:
        from normkit.pages import write_page
        from normkit.pages.bench import bench_page

        write_page(bench_page(record), page)
    console.print(bench_table.render(record, targets=targets))


def _tell(start: float, text: str) -> None:
    typer.echo(f"{time.perf_counter() - start:6.1f} s  {text}", err=True)


def _check_folder(option: str, file: Path | None) -> None:
    """Before minutes of timing, not after."""
    if file is not None and not file.absolute().parent.is_dir():
        rule = f"{option} must name a file in a folder that exists"
        raise OptionError(sentence("bench", rule, f"there is no folder {str(file.parent)!r}"))


def _check_alone(option: str, others: Sequence[object]) -> None:
    if any(other is not None for other in others):
        raise OptionError(sentence("bench", f"{option} stands alone", "there are other options"))
