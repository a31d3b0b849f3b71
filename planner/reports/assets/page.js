"use strict";
// What all reports share: plots that follow the theme, legends, tables that sort and filter, printing.
const report = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const figures = data.figures || {};
  const root = document.documentElement;
  const PRINTED_WIDTH = 690; // pixels of a page of A4 or Letter between its margins

  const property = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();

  function colour(token) {
    const [, name, alpha] = token.match(/^@([a-z0-9]+)(?:\/([\d.]+))?$/);
    let hex = property(name);
    if (hex.length === 4) hex = "#" + [...hex.slice(1)].map((c) => c + c).join("");
    return alpha ? hex + Math.round(255 * alpha).toString(16).padStart(2, "0") : hex;
  }

  // A copy of a figure in the colours of the theme; only what Plotly takes for a colour is looked at.
  function themed(value, key) {
    if (typeof value === "string") return /color/.test(key) && value[0] === "@" ? colour(value) : value;
    if (Array.isArray(value)) {
      return value.length && typeof value[0] === "number" && key !== "colorscale" ? value : value.map((item) => themed(item, key));
    }
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, themed(item, name)]));
  }

  const coarse = matchMedia("(pointer: coarse)");
  const config = {
    responsive: true, displaylogo: false, showTips: false,
    modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
  };

  function draw(id) {
    const figure = themed(figures[id], "");
    const layout = { ...figure.layout, dragmode: coarse.matches ? false : "zoom", modebar: {
      bgcolor: "rgba(0,0,0,0)", color: property("muted"), activecolor: property("link") } };
    if (root.hasAttribute("data-print")) Object.assign(layout, { width: PRINTED_WIDTH, height: Math.min(layout.height, 360), autosize: false });
    else Object.assign(layout, { width: undefined, autosize: true });
    return Plotly.react(id, figure.data, layout, config);
  }

  function drawAll() {
    for (const id of Object.keys(figures)) if (document.getElementById(id)) draw(id);
  }

  function toggle(key, on) {
    for (const box of document.querySelectorAll("[data-toggle]")) if (Number(box.dataset.toggle) === key) box.checked = on;
    for (const figure of Object.values(figures)) {
      for (const trace of figure.data) if (trace.meta && trace.meta.key === key) trace.visible = on;
    }
    drawAll();
  }

  const order = new Intl.Collator(undefined, { numeric: true });

  function sortBy(table, header, descending) {
    const at = header.cellIndex, numeric = header.classList.contains("num"), body = table.tBodies[0];
    const sign = descending ? -1 : 1;
    const keyed = [...body.rows].map((row) => {
      const cell = row.cells[at];
      const value = numeric ? cell.dataset.v : cell.textContent.trim();
      const unknown = numeric ? value === undefined : value === "" || value === "–";
      return { row, unknown, value: numeric ? Number(value) : value };
    });
    keyed.sort((a, b) => {
      if (a.unknown || b.unknown) return a.unknown - b.unknown; // unknown ones come last in either order
      return sign * (numeric ? a.value - b.value : order.compare(a.value, b.value));
    });
    body.append(...keyed.map((item) => item.row));
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  }

  for (const button of document.querySelectorAll("table.sortable thead button")) {
    button.addEventListener("click", () => {
      const header = button.closest("th");
      sortBy(button.closest("table"), header, header.getAttribute("aria-sort") === "ascending");
    });
  }

  for (const box of document.querySelectorAll("input[data-filter]")) {
    const rows = [...document.getElementById(box.dataset.filter).tBodies[0].rows];
    const output = box.parentElement.querySelector("output");
    box.addEventListener("input", () => {
      const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
      let left = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        left += !row.hidden;
      }
      output.textContent = left === rows.length ? `${left.toLocaleString("en")} rows`
        : `${left.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`;
    });
  }

  for (const box of document.querySelectorAll("[data-toggle]")) {
    box.addEventListener("change", () => toggle(Number(box.dataset.toggle), box.checked));
  }

  const folded = new Set();
  function printing(on) {
    if (root.hasAttribute("data-print") === on) return;
    root.toggleAttribute("data-print", on);
    for (const details of on ? document.querySelectorAll("details:not([open])") : folded) {
      details.open = on;
      if (on) folded.add(details);
    }
    if (!on) folded.clear();
    drawAll();
  }
  addEventListener("beforeprint", () => printing(true));
  addEventListener("afterprint", () => printing(false));
  matchMedia("print").addEventListener("change", (event) => printing(event.matches));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);

  drawAll();
  return { data, figures, draw, drawAll };
})();
