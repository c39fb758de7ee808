// The heat map: a result over two parameters, or over one.

class HeatMap {
  constructor(target, points, choose) {
    Object.assign(this, { target, points, choose }); // choose([parameter, value], …) when a cell is clicked
    this.result = 0;
    this.across = null; // index of a parameter; null for none
    this.down = null;
  }

  draw() {
    const { points } = this;
    const axes = [this.down, this.across];
    const groups = points.grouped(points.shown, (run) => axes.map((p) => (p === null ? null : run.parameters[p])));
    const [downs, acrosses] = axes.map((p) => this.valuesOf(p));
    const cells = downs.map((d) => acrosses.map((a) => points.mean(groups.get(JSON.stringify([d, a])) ?? [], this.result)));
    const means = cells.flat().map((cell) => cell.mean).filter(Number.isFinite);
    if (!means.length) {
      this.target.replaceChildren(element("p", { className: "empty", textContent: "No run that is done passes the filters." }));
      return;
    }
    const [low, high] = [Math.min(...means), Math.max(...means)];
    const rows = downs.map((d, i) => element("tr", {},
      element("th", { scope: "row", textContent: this.down === null ? "" : valueText(d) }),
      ...acrosses.map((a, j) => element("td", {}, this.cell(cells[i][j], low, high, d, a)))));
    this.target.replaceChildren(element("table", {}, element("thead", {}, ...this.headings(acrosses)), element("tbody", {}, ...rows)));
    setScale(low, high, points.content.results[this.result]);
  }

  valuesOf(parameter) {
    if (parameter === null) return [null];
    const chosen = this.points.chosen[parameter];
    return chosen === null ? this.points.parameters[parameter].values : [chosen];
  }

  headings(acrosses) {
    const name = (p) => (p === null ? "" : this.points.parameters[p].key);
    const top = element("tr", {}, element("td", { className: "corner" }),
      element("th", { className: "axis", colSpan: acrosses.length, scope: "colgroup", textContent: name(this.across) }));
    const values = element("tr", {}, element("th", { className: "corner axis", textContent: name(this.down) }),
      ...acrosses.map((a) => element("th", { scope: "col", textContent: this.across === null ? "" : valueText(a) })));
    return this.across === null ? [values] : [top, values];
  }

  cell({ mean, width, count }, low, high, down, across) {
    if (!count) return element("div", { className: "none", textContent: "–" });
    const colour = scaleColour(high > low ? (mean - low) / (high - low) : 0.5);
    const interval = Number.isFinite(width) ? `± ${meanText(width)}` : `${count} run`;
    const button = element("button", { type: "button" }, element("b", { textContent: meanText(mean) }), element("small", { textContent: interval }));
    button.style.backgroundColor = rgb(colour);
    button.style.color = inkOn(colour);
    button.title = `${count} run${count === 1 ? "" : "s"}`;
    const place = [[this.down, down], [this.across, across]].filter(([p]) => p !== null);
    button.classList.toggle("is-chosen", place.length > 0 && place.every(([p, value]) => this.points.chosen[p] === value));
    button.addEventListener("click", () => this.choose(place));
    return button;
  }
}

function setScale(low, high, result) {
  byId("scale-low").textContent = meanText(low);
  byId("scale-high").textContent = `${meanText(high)} ${result.unit}`;
}
