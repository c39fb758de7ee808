// Maps: a result over two parameters, or over one; with a third parameter, a map for each of its values.

const HEADING_PX = 150;
const CELL_PX = { one: 220, several: 120 }; // at most, of one map and of several side by side

class HeatMap {
  constructor(target, filtered, choose) {
    Object.assign(this, { target, filtered, choose }); // choose([parameter, value], …) when a cell is clicked
    this.result = 0;
    Object.assign(this, { across: null, down: null, panel: null }); // indices of parameters; null for none
  }

  draw() {
    const { filtered } = this;
    const axes = [this.panel, this.down, this.across];
    const groups = filtered.grouped(filtered.shown(axes), (run) => axes.map((p) => (p === null ? null : run.parameters[p])));
    const [panels, downs, acrosses] = axes.map((p) => (p === null ? [null] : filtered.parameters[p].values));
    const runsAt = (...place) => groups.get(JSON.stringify(place)) ?? [];
    const cells = panels.map((c) => downs.map((d) => acrosses.map((a) => filtered.mean(runsAt(c, d, a), this.result))));
    const known = cells.flat(2).filter((cell) => Number.isFinite(cell.mean));
    byId("map-scale").hidden = known.length === 0;
    if (!known.length) {
      this.target.replaceChildren(element("p", { className: "empty", textContent: "No run that is done passes the filters." }));
      return;
    }
    this.scale = new ColourScale(known, filtered.content.results[this.result]);
    this.target.replaceChildren(...panels.map((c, i) => this.map(cells[i], c, downs, acrosses)));
    this.drawScale();
  }

  drawScale() {
    const { filtered, scale, result } = this;
    const { unit, difference } = filtered.content.results[result];
    paintScale(byId("scale"), scale.colours);
    byId("scale-low").textContent = filtered.resultText(scale.low, result);
    byId("scale-high").textContent = `${filtered.resultText(scale.high, result)} ${unit}`;
    byId("unclear").hidden = !difference;
  }

  /** One map, titled with the value that it is for. */
  map(cells, panel, downs, acrosses) {
    const rows = downs.map((d, i) => element("tr", {},
      element("th", { scope: "row", textContent: this.down === null ? "" : valueText(d) }),
      ...acrosses.map((a, j) => element("td", {}, this.cell(cells[i][j], [[this.panel, panel], [this.down, d], [this.across, a]])))));
    const table = element("table", {}, element("thead", {}, ...this.headings(acrosses)), element("tbody", {}, ...rows));
    table.style.width = `${HEADING_PX + CELL_PX[this.panel === null ? "one" : "several"] * acrosses.length}px`;
    if (this.panel !== null) table.prepend(element("caption", { textContent: this.placeText([[this.panel, panel]]) }));
    return table;
  }

  headings(acrosses) {
    const name = (p) => (p === null ? "" : nameWithUnit(this.filtered.parameters[p]));
    const top = element("tr", {}, element("td", { className: "corner" }),
      element("th", { className: "axis", colSpan: acrosses.length, scope: "colgroup", textContent: name(this.across) }));
    const values = element("tr", {}, element("th", { className: "corner axis", textContent: name(this.down) }),
      ...acrosses.map((a) => element("th", { scope: "col", textContent: this.across === null ? "" : valueText(a) })));
    return this.across === null ? [values] : [top, values];
  }

  cell({ mean, width, count, of }, axes) {
    if (!count) return element("div", { className: "none", textContent: "–" });
    const { filtered, result } = this;
    const { unit, difference } = filtered.content.results[result];
    const place = axes.filter(([p]) => p !== null);
    const some = count < of ? `${count} of ${of} seeds` : "";
    const [text, seeds] = [filtered.resultText(mean, result), some || `${count} seed${count === 1 ? "" : "s"}`];
    const interval = Number.isFinite(width) ? [`± ${filtered.widthText(width, result)}`, some].filter(Boolean).join(", ") : seeds;
    const unclear = difference && Math.abs(mean) <= width;
    const button = element("button", { type: "button" }, element("b", { textContent: text }), element("small", { textContent: interval }));
    const colour = this.scale.colour(mean);
    button.style.backgroundColor = rgb(colour);
    button.style.color = inkOn(colour);
    button.title = `${this.placeText(place)}: ${text} ${unit}, ${interval}, ${seeds}${unclear ? "; may be chance" : ""}`;
    button.setAttribute("aria-label", button.title);
    const asked = place.filter(([p]) => filtered.chosen[p] !== null);
    button.classList.toggle("is-chosen", asked.length > 0 && asked.every(([p, value]) => filtered.chosen[p] === value));
    button.classList.toggle("is-unclear", unclear);
    button.addEventListener("click", () => this.choose(place));
    return button;
  }

  placeText(place) {
    return place.map(([p, value]) => placeText(this.filtered.parameters[p], value)).join(", ");
  }
}
