"""Draw the pictures of the documentation: docs/pictures/{norms,placements}/NAME.svg and two more.

    python tools/pictures.py

bench.svg is drawn from docs/measurements/picture.json, which says when and where it was measured
and is renewed by `make bench-picture`. Each of the others is what `normkit explain NAME --svg`
draws at its default shape. They are committed, so that a code host shows them; a file that is as it
should be is left untouched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import normkit
from normkit.pages import bench

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
MEASURED = PICTURES.parent / "measurements" / "picture.json"


def pictures() -> Iterator[tuple[str, str]]:
    """Yield the file of each norm and placement, from docs/pictures, with its drawing."""
    yield "explain.svg", normkit.explain("layer_norm", "batch_norm").svg()
    if MEASURED.is_file():
        yield "bench.svg", bench.picture(json.loads(MEASURED.read_text(encoding="utf-8")))
    for folder, names in (("norms", normkit.NORMS), ("placements", normkit.PLACEMENTS)):
        for name in names:
            yield f"{folder}/{name}.svg", normkit.explain(name).svg()


def main() -> None:
    """Write those that changed, and say which."""
    for name, drawing in pictures():
        file = PICTURES / name
        if not file.is_file() or file.read_text(encoding="utf-8") != drawing:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(drawing, encoding="utf-8")
            print(f"docs/pictures/{name} is new or has changed")


if __name__ == "__main__":
    main()
