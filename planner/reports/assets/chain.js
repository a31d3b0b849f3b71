"use strict";
// A staging plan as a bar as wide as the layers: above it how long each stage takes, below it the stages.
(() => {
  const { chain } = report.data;
  if (!chain) return;
  const make = (tag, classes, text) => {
    const element = document.createElement(tag);
    if (classes) element.className = classes;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const look = (type) => `c${type % 8} p${Math.floor(type / 8) % 4}`;
  const holder = document.getElementById("chain"), list = document.querySelector("#stages tbody");
  const figure = (value) => Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });

  function ticks() {
    const scale = make("div", "ticks"), layers = chain.layers.length;
    const room = Math.max(2, Math.floor(holder.clientWidth / 55));
    const step = [1, 2, 5, 10, 20, 25, 50, 100, 200, 500].find((size) => layers / size <= room) || 1000;
    for (let layer = 0; layer < layers; layer += step) {
      if (layer && layers - 1 - layer < step * 0.6) continue; // would touch the last one
      const mark = make("span", "", String(layer));
      mark.style.left = `${(100 * (layer + (layer ? 0.5 : 0))) / layers}%`;
      scale.append(mark);
    }
    const end = make("span", "", String(layers - 1));
    end.style.left = "100%";
    if (layers > 1) scale.append(end);
    return scale;
  }

  function show(point) {
    const slowest = Math.max(...point.stages.map((stage) => stage[4]));
    const roomy = holder.clientWidth / point.stages.length >= 5 ? " gaps" : "";
    const skyline = make("div", "skyline" + roomy), layers = make("div", "layers" + roomy);
    list.replaceChildren();
    point.stages.forEach(([first, last, type, units, time], index) => {
      const name = chain.types[type], atMost = time >= slowest * (1 - 1e-9);
      const words = point.words ? point.words[index] : first === last ? `${first}` : `${first}–${last}`;
      const where = first === last ? `layer ${words}` : `layers ${words}`;
      const tip = `${where}: ${units.toLocaleString("en")} × ${name}, ${figure(time)} s`;
      const peak = make("i", `${look(type)}${atMost ? " slowest" : ""}`), block = make("span", look(type));
      peak.style.height = `${(100 * time) / slowest}%`;
      peak.style.flexGrow = block.style.flexGrow = last - first + 1;
      peak.title = block.title = tip;
      block.append(make("b", "short", units.toLocaleString("en")), make("b", "long", `${units.toLocaleString("en")} × ${name}`));
      skyline.append(peak);
      layers.append(block);
      const row = make("tr"), kind = make("td");
      kind.append(make("span", `swatch ${look(type)}`), name);
      const head = make("th", "num", String(index)), share = make("td", "num");
      head.scope = "row";
      head.dataset.v = index;
      share.append(`${((100 * time) / slowest).toFixed(1)} %`);
      // In a graph the layers stand in the order of the stages.
      const title = (place) => chain.layers[point.order ? point.order[place] : place];
      const names = first === last ? title(first) : `${title(first)} … ${title(last)}`;
      row.append(head, make("td", "", words), make("td", "", names), kind,
        make("td", "num", units.toLocaleString("en")), make("td", "num", figure(time)), share);
      list.append(row);
    });
    holder.replaceChildren(skyline, layers, ...(point.order ? [] : [ticks()]));
    holder.setAttribute("aria-label", `${point.stages.length} stages: ` + point.stages.slice(0, 12).map(
      ([first, last, type, units], index) =>
        `layers ${point.words ? point.words[index] : `${first} to ${last}`} on ${units} ${chain.types[type]}`).join("; ") +
      (point.stages.length > 12 ? "; the table below lists all" : ""));
    for (const [type, units] of Object.entries(point.units)) {
      const cell = document.getElementById(`units-${type}`);
      if (cell) cell.textContent = units.toLocaleString("en");
    }
    report.shown = point;
  }

  report.show = show;
  addEventListener("resize", () => report.shown && show(report.shown));
  if (chooser) chooser.choose(chooser.start);
  else show(chain.plan);
})();
