// What the marks on the map mean, and what differs between two runs.

/** Show the legend's lines for what is on any of the maps. */
function describeKinds(runs) {
  const kinds = new Set(runs.flatMap((run) => run.ground.shapes.map((shape) => shape.kind)));
  if (runs.some((run) => run.ground.roads.length)) kinds.add("road");
  if (runs.some((run) => run.range_m)) kinds.add("range");
  for (const item of document.querySelectorAll("[data-kind]")) item.hidden = !kinds.has(item.dataset.kind);
  const ranges = [...new Set(runs.flatMap((run) => (run.range_m ? [metresText(run.range_m)] : [])))];
  const mean = runs.some((run) => run.shadowed) ? ", without shadowing" : "";
  setText(byId("range"), `radio range in the open${mean}: ${ranges.join(" | ")}`);
}

/** List the groups of clients by the shapes of their marks; where there are too many, say that names are on the map. */
function describeGroups(histories) {
  const all = histories.map((history) => history.groups).filter((groups) => groups.names.length);
  const names = [...new Set(all.flatMap((groups) => groups.names))];
  byId("groups").hidden = !names.length;
  const same = all.every((groups) => groups.haveShapes && groups.names.every((name, i) => all[0].names[i] === name));
  if (!names.length) return;
  if (!same) {
    setText(byId("groups-note"), "Names of groups stand on the map, or beside the client you point at.");
    return;
  }
  byId("group-list").append(...all[0].names.map((name, i) => element("li", {}, shapeFigure(SHAPES[i]), name)));
}

/** Fill the table of what differs between two runs: rows of [key in words, value in A, value in B]. */
function describeDifferences(rows) {
  byId("differences").hidden = !rows.length;
  byId("difference-rows").append(...rows.map(([name, ...values]) => element("tr", {},
    element("th", { textContent: name, scope: "row" }), ...values.map((textContent) => element("td", { textContent })))));
}
