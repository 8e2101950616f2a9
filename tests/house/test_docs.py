"""The documentation: its index is complete, its pictures are current, its build is strict."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import normkit
from tests.house.source import ROOT

DOCS = ROOT / "docs"
DRAWN = [
    *(("norms", name) for name in normkit.NORMS),
    *(("placements", name) for name in normkit.PLACEMENTS),
]
OUTSIDE = re.compile(
    r"""(?:src|data|action)=["'](?:https?:)?//|<link[^>]+href=["'](?:https?:)?//"""
)


def load(file: Path) -> ModuleType:
    """Import a script of the project that stands in no package."""
    spec = importlib.util.spec_from_file_location(f"loaded_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pictures_are_current() -> None:
    """The committed pictures are what explain draws today, and no others; else ``make docs``."""
    wanted = dict(load(ROOT / "tools" / "pictures.py").pictures())
    found = {
        label_in(DOCS / "pictures", file): file.read_text(encoding="utf-8")
        for file in (DOCS / "pictures").rglob("*.svg")
    }
    stale = {name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)}
    assert not stale


@pytest.mark.parametrize(("folder", "name"), DRAWN, ids=lambda part: part)
def test_page_shows_its_picture(folder: str, name: str) -> None:
    """Near the top, with words for those who do not see it."""
    top = (DOCS / folder / f"{name}.md").read_text(encoding="utf-8").splitlines()[:12]
    shown = re.compile(rf"!\[.{{10,}}\]\(\.\./pictures/{folder}/{name}\.svg\)")
    assert any(shown.fullmatch(line) for line in top)


def test_index_lists_every_page() -> None:
    """Each Markdown page of the root and of docs/ stands in a table of contents, and exists."""
    tables = load(DOCS / "conf.py").contents((DOCS / "index.md").read_text(encoding="utf-8"))
    listed = {(DOCS / page).resolve() for page in re.findall(r"<(.+)>$", tables, re.MULTILINE)}
    pages = {*ROOT.glob("*.md"), *DOCS.rglob("*.md")} - {DOCS / "index.md"}
    assert listed == {page.resolve() for page in pages}


def test_contents_follow_the_sections() -> None:
    """A table a section, pages once and in order; other links are none of them."""
    index = (
        "# A\n[x](x.md)\n"
        "## B\n[y](y.md) [z](a/z.md#b) [w](https://w.md)\n"
        "## C\n[v](v.md) [v](v.md)\n"
    )
    tables = load(DOCS / "conf.py").contents(index)
    assert re.findall(r":caption: (.+)\n\n((?:.+\n)*)```", tables) == [
        ("B", "y <y.md>\n"),
        ("C", "v <v.md>\n"),
    ]


@pytest.mark.parametrize(
    ("line", "quoted"),
    [
        ("x: (*, C), y: (B, *)", "x: ``(*, C)``, y: ``(B, *)``"),
        (
            "``max(|x|, eps)``, |x| its length (B, C)",
            "``max(|x|, eps)``, ``|x|`` its length (B, C)",
        ),
    ],
)
def test_docstrings_may_write_shapes_plainly(line: str, quoted: str) -> None:
    """Stars in shapes and bars around lengths become code, unless they are."""
    assert load(DOCS / "conf.py").quote(line) == quoted


def test_every_public_name_has_a_reference() -> None:
    """What the package offers stands in a module, or is a function, with a page in docs/api."""
    text = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    modules = re.findall(r"automodule:: (\S+)", text)
    named = {name for module in modules for name in dir(importlib.import_module(module))}
    named |= {name.rpartition(".")[2] for name in re.findall(r"autofunction:: (\S+)", text)}
    inner = {name for name in normkit.__all__ if isinstance(getattr(normkit, name), ModuleType)}
    assert set(normkit.__all__) - inner - {"__version__"} <= named


def test_make_builds_strictly() -> None:
    """``make docs`` and the test below ask for the same."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"-m {STRICT} " in makefile


# From scratch: of a page that has not changed, Sphinx would not repeat the warnings.
STRICT = "sphinx --fail-on-warning --keep-going --fresh-env --write-all --quiet"


def build(root: Path, pages: dict[str, str]) -> tuple[int, str]:
    """Build a small site with the project's own configuration; give the exit code and stderr."""
    (root / "docs").mkdir()
    shutil.copy(DOCS / "conf.py", root / "docs")
    shutil.copytree(DOCS / "templates", root / "docs" / "templates")
    for name, text in pages.items():
        (root / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", *STRICT.split(), "--conf-dir", "docs", ".", "build"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    return done.returncode, done.stderr


INDEX = "# Index\n\n[README](README.md)\n\n## Pages\n\n- [A](a.md)\n- [README](../README.md)\n"


def test_build_fails_on_what_leads_nowhere(tmp_path: Path) -> None:
    """A link, a heading, a picture, a name, a page that nobody lists: each is named."""
    faults = (
        "# A\n\n[gone](gone.md)\n\n[place](#gone-place)\n\n![](gone.png)\n\n$\\gone$\n\n"
        "```{eval-rst}\n:class:`GoneClass`\n```\n"
    )
    pages = {
        "docs/index.md": INDEX,
        "docs/a.md": faults,
        "docs/lonely.md": "# B\n",
        "README.md": "# R\n",
    }
    code, errors = build(tmp_path, pages)
    assert code == 1
    assert "README.md" in errors  # from docs/index.md there is no such page
    for gone in ("'gone.md'", "'gone-place'", "gone.png", "\\gone", "GoneClass", "lonely.md"):
        assert sum(gone in line for line in errors.splitlines()) == 1, errors


def test_built_pages_need_nothing_from_outside(tmp_path: Path) -> None:
    """A sound site builds; formulas are MathML, and no page fetches anything."""
    page = "# A\n\n$x^2$\n\n$$\\frac{1}{2}$$\n\n[back](../README.md) [here](#a)\n"
    index = INDEX.replace("(README.md)", "(../README.md)")
    code, errors = build(
        tmp_path, {"docs/index.md": index, "docs/a.md": page, "README.md": "# R\n"}
    )
    assert (code, errors) == (0, "")
    site = tmp_path / "build"
    html = {label_in(site, file): file.read_text(encoding="utf-8") for file in site.rglob("*.html")}
    assert html["docs/a.html"].count("<math") == 2
    assert 'href="../README.html"' in html["docs/a.html"]
    assert "url=docs/index.html" in html["index.html"]
    assert not [name for name, text in html.items() if OUTSIDE.search(text)]


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://a.b/c.js">',
        "<img src='//a.b/c.png'>",
        '<link rel="x" href="http://a.b">',
    ],
)
def test_what_a_page_would_fetch_is_found(text: str) -> None:
    """The pattern above knows scripts, pictures and style sheets."""
    assert OUTSIDE.search(text)


def label_in(folder: Path, file: Path) -> str:
    """Name a file from a folder."""
    return file.relative_to(folder).as_posix()
