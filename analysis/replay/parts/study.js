// The page of a study: what it found; filters; maps, curves and a table of what they let through.

const AXES = ["down", "across", "panel"]; // of the map: ids of what chooses their parameters

class StudyPage {
  constructor(content) {
    this.content = content;
    this.filtered = new FilteredRuns(content);
    this.heat = new HeatMap(byId("heat"), this.filtered, (place) => this.chooseCell(place));
    this.table = new RunsTable(byId("table"), this.filtered, () => this.visible());
    this.curves = content.curves && new Curves(byId("curves"), this.filtered, byId("curve-at"));
    this.describe();
    this.makeFilters();
    this.makeAxes();
    this.makeCurves();
    this.connect();
    new Theme(byId("theme"), () => this.draw());
  }

  describe() {
    const { runs, parameters, name, title } = this.content;
    const done = runs.filter(isDone).length;
    const combinations = this.filtered.grouped(runs, (run) => run.parameters).size;
    byId("name").textContent = name || "study";
    byId("title").textContent = title;
    byId("title").hidden = !title;
    const many = (count, word) => `${numberText(count, 9)} ${word}${count === 1 ? "" : "s"}`;
    const seeds = new Set(runs.map((run) => run.replication)).size;
    const facts = [many(parameters.length, "parameter"), many(combinations, "combination"), many(seeds, "seed"), many(runs.length, "run")];
    byId("findings").append(...this.content.findings.map((sentence) => element("li", { textContent: sentence })));
    byId("facts").append(...facts.map((fact) => element("li", { textContent: fact })));
    byId("missing").textContent = `${runs.length - done} not done`;
    byId("missing").hidden = done === runs.length;
  }

  makeFilters() {
    this.selects = this.content.parameters.map((parameter, i) => {
      const { values } = parameter;
      const select = element("select", {}, element("option", { value: "", textContent: "all" }),
        ...values.map((value, at) => element("option", { value: String(at), textContent: valueText(value) })));
      select.addEventListener("change", () => {
        this.filtered.chosen[i] = select.value === "" ? null : values[Number(select.value)];
        this.draw();
      });
      byId("filters").append(element("label", { title: parameter.key }, nameWithUnit(parameter), select));
      return select;
    });
  }

  makeAxes() {
    const { results, in_map: first } = this.content;
    byId("metric").append(...results.map((result, i) => element("option", { value: String(i), textContent: nameWithUnit(result) })));
    if (results.length) byId("metric").value = String(first);
    const free = this.free();
    const [one, two, three] = free;
    const starts = free.length > 1 ? { down: one, across: two, panel: three } : { across: one };
    for (const id of AXES) {
      byId(id).append(...this.parameterOptions(), element("option", { value: "", textContent: "nothing" }));
      byId(id).value = String(starts[id] ?? "");
    }
    byId("down").parentElement.hidden = free.length < 2;
    byId("panel").parentElement.hidden = free.length < 3;
  }

  /** The parameters that vary independently. */
  free() {
    return this.content.parameters.flatMap(({ free }, i) => (free ? [i] : []));
  }

  parameterOptions() {
    return this.free().map((i) => element("option", { value: String(i), textContent: nameWithUnit(this.content.parameters[i]) }));
  }

  makeCurves() {
    byId("curves-card").hidden = !this.curves;
    if (!this.curves) return;
    const { results } = this.curves.data;
    byId("curve-metric").append(...results.map((result, i) => element("option", { value: String(i), textContent: nameWithUnit(result) })));
    byId("by").append(...this.parameterOptions());
    byId("by-label").hidden = !this.free().length;
    byId("by").value = String(this.mostTelling() ?? "");
    for (const id of ["curve-metric", "by"]) byId(id).addEventListener("change", () => this.draw());
  }

  /** The parameter whose values differ most in the result that the map shows. */
  mostTelling() {
    const { runs, in_map: result } = this.content;
    const apart = (p) => {
      const groups = [...this.filtered.grouped(runs, (run) => run.parameters[p]).values()];
      const means = groups.map((group) => this.filtered.mean(group, result).mean).filter(Number.isFinite);
      return means.length ? Math.max(...means) - Math.min(...means) : 0;
    };
    return this.free().reduce((best, p) => (best === null || apart(p) > apart(best) ? p : best), null);
  }

  /** A button for each colour of the curves; it shows only the runs with its value. */
  drawLegend() {
    const { by } = this.curves;
    const values = by === null ? [] : this.content.parameters[by].values;
    byId("legend").replaceChildren(...values.map((value) => {
      const chosen = this.filtered.chosen[by] === value;
      const swatch = element("i");
      const { colour, dashes } = this.curves.look(value);
      swatch.style.color = colour;
      swatch.classList.toggle("dashed", dashes !== "");
      const button = element("button", { type: "button" }, swatch, valueText(value));
      button.setAttribute("aria-pressed", String(chosen));
      button.addEventListener("click", () => {
        this.filtered.chosen[by] = chosen ? null : value;
        this.draw();
      });
      return button;
    }));
  }

  connect() {
    for (const id of ["metric", ...AXES]) byId(id).addEventListener("change", () => this.axesChanged(id));
    byId("search").addEventListener("input", () => {
      this.filtered.search(byId("search").value);
      this.draw();
    });
    byId("clear").addEventListener("click", () => {
      byId("search").value = "";
      this.filtered.search("");
      this.filtered.chosen.fill(null);
      this.draw();
    });
    byId("by-combination").addEventListener("click", () => this.rowsBy(true));
    byId("by-run").addEventListener("click", () => this.rowsBy(false));
    onThemeKey(() => byId("theme").click());
  }

  /** No parameter has two places on the map. */
  axesChanged(id) {
    for (const other of AXES) {
      if (id !== "metric" && other !== id && byId(other).value === byId(id).value) byId(other).value = "";
    }
    this.draw();
  }

  rowsBy(combination) {
    this.table.byCombination = combination;
    this.draw();
  }

  /** Show the runs of a cell; of the one shown already, all again. */
  chooseCell(place) {
    const { chosen } = this.filtered;
    const shown = place.every(([parameter, value]) => chosen[parameter] === value);
    for (const [parameter, value] of place) chosen[parameter] = shown ? null : value;
    this.table.byCombination = shown;
    this.draw();
  }

  /** The results in the table: the usual ones, and the one that the heat map shows. */
  visible() {
    const usual = Array.from({ length: this.content.in_table }, (_, i) => i);
    return usual.includes(this.heat.result) || !this.content.results.length ? usual : [...usual, this.heat.result];
  }

  draw() {
    const { heat, table, filtered } = this;
    const axis = (id) => (byId(id).value === "" ? null : Number(byId(id).value));
    Object.assign(heat, { result: axis("metric") ?? 0, across: axis("across"), down: axis("down"), panel: axis("panel") });
    this.selects.forEach((select, i) => {
      const at = this.content.parameters[i].values.indexOf(filtered.chosen[i]);
      select.value = at < 0 ? "" : String(at);
    });
    heat.draw();
    if (this.curves) {
      Object.assign(this.curves, { result: axis("curve-metric") ?? 0, by: axis("by") });
      this.curves.draw();
      this.drawLegend();
    }
    const rows = table.draw();
    byId("by-combination").setAttribute("aria-pressed", String(table.byCombination));
    byId("by-run").setAttribute("aria-pressed", String(!table.byCombination));
    byId("table-title").textContent = table.byCombination ? "Combinations" : "Runs";
    byId("count").textContent = `${numberText(rows, 9)} shown${table.byCombination ? ", mean ± 95 % interval over seeds" : ""}`;
    byId("clear").disabled = filtered.words.length === 0 && filtered.chosen.every((value) => value === null);
  }
}

window.study = new StudyPage(pageContent()); // within reach of the browser's console and of tests
