"""A page as one HTML file that needs no network."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path

import altair as alt
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from normkit.pages import cells
from normkit.pages.records import Chart, Page, Verdict

ICONS: dict[Verdict, str] = {
    "holds": "\u2713",
    "does not hold here": "\u2717",
    "undecided": "?",
    "measured": "\u2022",
}

# Vega-Lite draws 5.8 up to the newest that vl-convert carries; it is named by major.minor.
VEGA_LITE = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])


def write_page(page: Page, path: str | os.PathLike[str]) -> Path:
    """Write ``page`` to ``path`` and return the path.

    The file holds its styles, its data and the chart library (once), and asks for nothing else.
    It is written aside and moved into place, so a reader never sees half a page. The same page
    gives the same bytes.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> write_page(Page(title="Nothing yet"), f"{folder}/page.html").name
        'page.html'
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with written_aside(target) as aside:
        aside.write_bytes(render(page).encode())
    return target


def render(page: Page) -> str:
    """The whole page as text."""
    environment = Environment(
        loader=PackageLoader("normkit.pages", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = cells.plain
    return environment.get_template("page.html.j2").render(
        page=page,
        icons=ICONS,
        specs={chart.name: spec_text(chart) for chart in page.charts},
        tables=[cells.shown(table) for table in page.tables],
        css=_part("page.css"),
        js=_part("page.js"),
        bundle=_bundle() if page.charts else "",
    )


def spec_text(chart: Chart) -> Markup:
    """A chart's specification as JSON that is safe inside a script element.

    The title is left out, because the page has it as a heading.
    """
    spec = chart.spec.to_dict()
    spec.pop("title", None)
    text = json.dumps(spec, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # Inside a script element only "<" can end it; in JSON "<" stands in strings alone.
    return Markup(text.replace("<", "\\u003c"))


@contextmanager
def written_aside(target: Path) -> Iterator[Path]:
    """Give a path beside ``target``; move it onto ``target`` when the block ends well."""
    aside = target.with_name(f".{target.name}.{os.getpid()}.part{target.suffix}")
    try:
        yield aside
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)


def _part(name: str) -> Markup:
    return Markup(files("normkit.pages").joinpath("template", name).read_text(encoding="utf-8"))


@cache
def _bundle() -> Markup:
    """Vega, Vega-Lite and Vega-Embed as one script of about 0.9 MB."""
    # Without a snippet the bundle is ready-made; with one it is built anew, for seconds. The stub
    # calls the argument required.
    text = vl_convert.javascript_bundle(vl_version=VEGA_LITE)  # type: ignore[call-arg]
    return Markup(text.replace("</script", "<\\/script"))
