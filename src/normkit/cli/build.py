"""``normkit build``: compile the CPU kernels ahead of their first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from normkit.cli.guard import guarded

if TYPE_CHECKING:
    from normkit.kernels.cpu import Built, Status

MIB = 1024**2


def register(app: typer.Typer) -> None:
    """Add the verb to the application."""
    app.command(name="build")(guarded(build))


def build(
    force: Annotated[
        bool, typer.Option("--force", help="Compile even where a sound library is there.")
    ] = False,
) -> None:
    """Compile the CPU kernels into your cache, so that the first use does not wait for it.

    Does nothing where they are there already. docs/install.md says where the cache is.
    """
    from normkit.kernels import cpu

    built = cpu.build(force=force)
    typer.echo(_what_was_done(built))
    typer.echo(f"file      {built.file} ({built.size_bytes / MIB:.1f} MiB)")
    typer.echo(f"compiler  {built.compiler}")
    typer.echo(f"for       {', '.join(built.isas)}; {_what_runs(cpu.status())}")


def _what_was_done(built: Built) -> str:
    if built.compiled:
        return f"Compiled the CPU kernels in {built.seconds:.1f} s."
    if built.origin == "package":
        return "This install brought the CPU kernels compiled: nothing to do."
    return "The CPU kernels are compiled: nothing to do. Type normkit build --force to redo it."


def _what_runs(status: Status) -> str:
    return f"here {status.isa} runs" if status.isa else f"none runs here: {status.reason}"
