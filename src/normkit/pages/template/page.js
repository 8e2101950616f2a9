"use strict";
// Charts: fit each specification to the window, draw it, and draw again when the width changes.
(() => {
  const PANEL_PX = 300; // a panel narrower than this moves to the next row
  const Y_AXIS_PX = 66; // what the y axis, its title and the margin take
  const GAP_PX = 24;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function fit(spec, width) {
    if (spec.facet && spec.spec) {
      const panels = (spec.usermeta && spec.usermeta.panels) || 1;
      const fitting = Math.floor(width / PANEL_PX);
      const columns = Math.max(1, Math.min(panels, spec.columns || panels, fitting));
      spec.columns = columns;
      spec.spacing = GAP_PX;
      spec.spec.width = Math.floor((width - Y_AXIS_PX - GAP_PX * (columns - 1)) / columns);
    } else if (spec.layer || spec.mark) {
      spec.width = width;
      spec.autosize = { type: "fit-x", contains: "padding" };
    }
  }

  function dress(spec, width) {
    const config = (spec.config = spec.config || {});
    const [ink, soft, grid, axis] = ["--ink", "--soft", "--grid", "--axis"].map(colour);
    const text = { labelColor: ink, titleColor: soft };
    const narrow = width < 500;
    config.background = "transparent";
    config.axis = { ...config.axis, ...text, gridColor: grid, domainColor: axis, tickColor: axis };
    config.header = { ...config.header, labelColor: ink };
    config.legend = { ...config.legend, ...text };
    if (narrow) Object.assign(config.legend, { titleOrient: "top", columnPadding: 10 });
    const letters = (spec.usermeta && spec.usermeta.longestName) || 16;
    config.legend.columns = Math.max(1, Math.floor((width - (narrow ? 0 : 100)) / (letters * 7 + 40)));
  }

  // Vega-Lite 6.4 lets the cell around a point answer the pointer, but reads the texts of the
  // tooltip from the cell instead of from the point inside it: "undefined" for every name.
  function readThePoint(vega) {
    for (const mark of vega.marks || []) {
      const encode = (mark.encode && mark.encode.update) || {};
      if (/_voronoi$/.test(mark.name) && encode.tooltip && encode.tooltip.signal) {
        encode.tooltip.signal = encode.tooltip.signal.replace(/\bdatum(\.datum)?\[/g, "datum.datum[");
      }
      readThePoint(mark);
    }
    return vega;
  }

  async function draw(figure) {
    const plot = figure.querySelector(".plot");
    const spec = JSON.parse(figure.querySelector("script").textContent);
    const width = plot.clientWidth;
    fit(spec, width);
    dress(spec, width);
    if (figure.drawn) figure.drawn.finalize();
    figure.drawnWidth = width;
    plot.classList.remove("failed");
    try {
      figure.drawn = await vegaEmbed(plot, spec, {
        renderer: "canvas",
        actions: { export: true, source: false, compiled: false, editor: false },
        patch: readThePoint,
        downloadFileName: figure.id,
      });
    } catch (error) {
      console.error(error);
      figure.drawn = null;
      plot.classList.add("failed");
      plot.textContent = `This chart could not be drawn: ${error.message}`;
    }
  }

  const figures = [...document.querySelectorAll("figure.chart")];
  let turn = Promise.resolve();
  function drawAll(changed) {
    for (const figure of figures) {
      if (changed(figure)) turn = turn.then(() => draw(figure));
    }
    turn = turn.then(() => { document.documentElement.dataset.charts = "drawn"; });
  }

  let timer = 0;
  window.addEventListener("resize", () => {
    clearTimeout(timer);
    const moved = (f) => Math.abs(f.querySelector(".plot").clientWidth - f.drawnWidth) > 8;
    timer = setTimeout(() => drawAll(moved), 150);
  });
  dark.addEventListener("change", () => drawAll(() => true));
  drawAll(() => true);
})();

// The wheel zooms a chart only after the pointer has moved inside it: someone who scrolls the page
// past a chart keeps scrolling.
(() => {
  const plotOf = (event) => (event.target instanceof Element ? event.target.closest(".plot") : null);
  let owner = null;
  let last = [NaN, NaN];
  window.addEventListener("pointermove", (event) => {
    const here = [event.screenX, event.screenY];
    if (here[0] !== last[0] || here[1] !== last[1]) owner = plotOf(event);
    last = here;
  }, true);
  window.addEventListener("scroll", () => { owner = null; }, { passive: true });
  window.addEventListener("wheel", (event) => {
    const plot = plotOf(event);
    if (plot && plot !== owner) event.stopPropagation();
  }, { capture: true, passive: true });
})();

// Tables: a click on a heading sorts by it, a second click turns the order around.
(() => {
  const collator = new Intl.Collator("en", { numeric: true });
  function compare(a, b) {
    const [x, y] = [a, b].map((cell) => cell.dataset.value);
    if (x === undefined || y === undefined) return collator.compare(a.textContent, b.textContent);
    if (x === "" || y === "") return (x === "") - (y === ""); // no value: last
    return Number(x) - Number(y);
  }
  for (const heading of document.querySelectorAll("th")) {
    heading.querySelector("button").addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      for (const other of heading.parentElement.children) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = heading.closest("table").tBodies[0];
      const rows = [...body.rows].sort((a, b) =>
        compare(a.cells[heading.cellIndex], b.cells[heading.cellIndex]));
      body.append(...(down ? rows.reverse() : rows));
    });
  }
})();
