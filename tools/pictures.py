"""Draw the pictures of the documentation: docs/pictures/{norms,placements}/NAME.svg, and one pair.

    python tools/pictures.py

Each is what `normkit explain NAME --svg` draws at its default shape. They are committed, so that a
code host shows them; a file that is as it should be is left untouched.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import normkit

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"


def pictures() -> Iterator[tuple[str, str]]:
    """Yield the file of each norm and placement, from docs/pictures, with its drawing."""
    yield "explain.svg", normkit.explain("layer_norm", "batch_norm").svg()
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
