"use strict";
// A frontier: one of its points is chosen by click, slider, buttons or table, and `report.show` shows it.
const chooser = (() => {
  const { data, figures, draw } = report;
  const slider = document.getElementById("chosen");
  if (!slider) return null;
  const words = document.getElementById("chosen-words");
  const { points, plot, line, star, ring, today } = data.choice;
  const rows = new Map([...document.querySelectorAll("#points tbody tr")].map((row) => [Number(row.cells[0].dataset.v) - 1, row]));
  // Points go from the dearest to the cheapest, and the slider as the plot does: from the cheapest on.
  const last = points.length - 1;
  let current = -1;

  function choose(index) {
    if (index === current || index < 0 || index >= points.length) return;
    const point = points[index];
    rows.get(current)?.removeAttribute("aria-current");
    rows.get(index)?.setAttribute("aria-current", "true");
    current = index;
    slider.value = last - index;
    slider.setAttribute("aria-valuetext", point.words);
    words.textContent = point.words;
    for (const [id, text] of Object.entries(point.figures || {})) document.getElementById(id).textContent = text;
    Object.assign(figures[plot].data[ring], { x: [point.x], y: [point.y] });
    draw(plot);
    report.show(point, index);
  }

  slider.addEventListener("input", () => choose(last - Number(slider.value)));
  for (const button of document.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => choose(current + Number(button.dataset.step)));
  }
  for (const button of document.querySelectorAll("[data-go]")) {
    button.addEventListener("click", () => choose(Number(button.dataset.go)));
  }
  for (const [index, row] of rows) {
    row.classList.add("pick");
    row.addEventListener("click", () => choose(index));
  }
  document.getElementById(plot).on("plotly_click", (event) => {
    const hit = event.points.find((point) => point.curveNumber === line || point.curveNumber === star);
    if (hit) choose(hit.curveNumber === line ? hit.pointNumber : today);
  });
  return { choose, start: data.choice.start };
})();
