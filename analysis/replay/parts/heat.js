// The heat map: a result over two parameters, or over one.

const HEADING_PX = 150;
const CELL_PX = 220; // at most

class HeatMap {
  constructor(target, filtered, choose) {
    Object.assign(this, { target, filtered, choose }); // choose([parameter, value], …) when a cell is clicked
    this.result = 0;
    this.across = null; // index of a parameter; null for none
    this.down = null;
  }

  draw() {
    const { filtered } = this;
    const axes = [this.down, this.across];
    const groups = filtered.grouped(filtered.shown(axes), (run) => axes.map((p) => (p === null ? null : run.parameters[p])));
    const [downs, acrosses] = axes.map((p) => (p === null ? [null] : filtered.parameters[p].values));
    const cells = downs.map((d) => acrosses.map((a) => filtered.mean(groups.get(JSON.stringify([d, a])) ?? [], this.result)));
    const means = cells.flat().map((cell) => cell.mean).filter(Number.isFinite);
    if (!means.length) {
      this.target.replaceChildren(element("p", { className: "empty", textContent: "No run that is done passes the filters." }));
      return;
    }
    const [low, high] = [Math.min(...means), Math.max(...means)];
    const rows = downs.map((d, i) => element("tr", {},
      element("th", { scope: "row", textContent: this.down === null ? "" : valueText(d) }),
      ...acrosses.map((a, j) => element("td", {}, this.cell(cells[i][j], low, high, d, a)))));
    const table = element("table", {}, element("thead", {}, ...this.headings(acrosses)), element("tbody", {}, ...rows));
    table.style.width = `${HEADING_PX + CELL_PX * acrosses.length}px`;
    this.target.replaceChildren(table);
    byId("scale-low").textContent = filtered.resultText(low, this.result);
    byId("scale-high").textContent = `${filtered.resultText(high, this.result)} ${filtered.content.results[this.result].unit}`;
  }

  headings(acrosses) {
    const name = (p) => (p === null ? [] : breakable(this.filtered.parameters[p].key));
    const top = element("tr", {}, element("td", { className: "corner" }),
      element("th", { className: "axis", colSpan: acrosses.length, scope: "colgroup" }, ...name(this.across)));
    const values = element("tr", {}, element("th", { className: "corner axis" }, ...name(this.down)),
      ...acrosses.map((a) => element("th", { scope: "col", textContent: this.across === null ? "" : valueText(a) })));
    return this.across === null ? [values] : [top, values];
  }

  cell({ mean, width, count }, low, high, down, across) {
    if (!count) return element("div", { className: "none", textContent: "–" });
    const colour = scaleColour(high > low ? (mean - low) / (high - low) : 0.5);
    const interval = Number.isFinite(width) ? `± ${this.filtered.resultText(width, this.result)}` : `${count} run`;
    const button = element("button", { type: "button" }, element("b", { textContent: this.filtered.resultText(mean, this.result) }), element("small", { textContent: interval }));
    button.style.backgroundColor = rgb(colour);
    button.style.color = inkOn(colour);
    button.title = `${count} run${count === 1 ? "" : "s"}`;
    const place = [[this.down, down], [this.across, across]].filter(([p]) => p !== null);
    const asked = place.filter(([p]) => this.filtered.chosen[p] !== null);
    button.classList.toggle("is-chosen", asked.length > 0 && asked.every(([p, value]) => this.filtered.chosen[p] === value));
    button.addEventListener("click", () => this.choose(place));
    return button;
  }
}

/** A dotted key that may be broken after its dots and underscores. */
function breakable(key) {
  return key.split(/(?<=[._])/).flatMap((part) => [part, element("wbr")]);
}
