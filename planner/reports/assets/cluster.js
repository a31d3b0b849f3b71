"use strict";
// A frontier of clusters: what the chosen one holds, and how the plan for it uses that.
(() => {
  const list = document.querySelector("#cluster tbody");
  if (!list || !chooser) return;

  function show(point) {
    list.replaceChildren();
    for (const { name, cells, share } of point.resources) {
      const row = document.createElement("tr"), head = document.createElement("th");
      head.scope = "row";
      head.textContent = name;
      row.append(head);
      cells.forEach((text, index) => {
        const cell = document.createElement("td");
        cell.className = "num";
        if (index === report.data.used && share !== null) {
          const bar = document.createElement("span");
          bar.className = "share";
          bar.style.setProperty("--share", share);
          cell.append(bar);
        }
        cell.append(text);
        row.append(cell);
      });
      list.append(row);
    }
  }

  report.show = show;
  chooser.choose(chooser.start);
})();
