"""What is on a chart, read from the scene that Vega drew."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page as Tab

# Calls visit(mark, x, y) for every mark of the chart, with the place of its group.
WALK = """
const view = document.getElementById(name).drawn.view;
function walk(groups, x, y, visit) {
  for (const group of groups) {
    const [gx, gy] = [x + (group.x || 0), y + (group.y || 0)];
    for (const mark of group.items || []) {
      visit(mark, gx, gy);
      if (mark.marktype === "group") walk(mark.items, gx, gy, visit);
    }
  }
}
const start = (visit) => walk(view.scenegraph().root.items, 0, 0, visit);
const at = (x, y) => {
  const box = document.querySelector(`#${name} canvas`).getBoundingClientRect();
  const [left, top] = view.origin();
  return [box.left + view.padding().left + left + x, box.top + view.padding().top + top + y];
};
"""


def _ask(tab: Tab, name: str, body: str, argument: object = None) -> Any:
    return tab.evaluate(f"([name, argument]) => {{ {WALK} {body} }}", [name, argument])


def points_drawn(tab: Tab, name: str) -> dict[str, int]:
    """How many points each series has, by kind of mark: ``{"line rms_norm": 200, ...}``."""
    found: dict[str, int] = _ask(
        tab,
        name,
        """
        const found = {};
        start((mark) => {
          if (mark.role !== "mark" || mark.marktype === "group" || mark.marktype === "path") return;
          for (const item of mark.items) {
            if (!item.datum || !item.datum.series) continue;
            const kind = item.datum.kind || mark.marktype;
            const key = `${kind} ${item.datum.series}`;
            found[key] = (found[key] || 0) + 1;
          }
        });
        return found;
        """,
    )
    return found


def axis_ends(tab: Tab, name: str) -> tuple[list[float], list[float]]:
    """Where the x and the y axis begin and end."""
    x, y = _ask(tab, name, 'return [view.scale("x").domain(), view.scale("y").domain()];')
    return x, y


def legend_place(tab: Tab, name: str, label: str) -> tuple[float, float]:
    """The middle of a legend entry on the screen."""
    x, y = _ask(
        tab,
        name,
        """
        let found = null;
        start((mark, x, y) => {
          if (mark.role !== "legend-label") return;
          for (const item of mark.items) {
            if (item.datum.label !== argument) continue;
            const b = item.bounds;
            found = at(x + (b.x1 + b.x2) / 2, y + (b.y1 + b.y2) / 2);
          }
        });
        return found;
        """,
        label,
    )
    return x, y


def point_place(tab: Tab, name: str, wanted: dict[str, object]) -> tuple[float, float]:
    """Where the point whose row has these values is on the screen."""
    x, y = _ask(
        tab,
        name,
        """
        let found = null;
        start((mark, x, y) => {
          if (mark.role !== "mark" || mark.marktype !== "symbol") return;
          for (const item of mark.items) {
            if (Object.entries(argument).every(([key, value]) => item.datum[key] === value))
              found = at(x + item.x, y + item.y);
          }
        });
        return found;
        """,
        wanted,
    )
    return x, y


def tooltip(tab: Tab) -> dict[str, str]:
    """The lines of the tooltip that is shown."""
    tab.wait_for_selector("#vg-tooltip-element.visible")
    lines: list[list[str]] = tab.evaluate(
        """() => [...document.querySelectorAll("#vg-tooltip-element tr")].map(
               (row) => [...row.cells].map((cell) => cell.textContent.trim()))"""
    )
    return {line[0]: line[1] for line in lines}


def settle(tab: Tab, name: str) -> None:
    """Wait until the chart has answered."""
    tab.evaluate(
        "(name) => document.getElementById(name).drawn.view.runAsync().then(() => null)", name
    )
