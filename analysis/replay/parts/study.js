// The page of a study: filters above, a heat map and a table of what they let through.

class StudyPage {
  constructor(content) {
    this.content = content;
    this.filtered = new FilteredRuns(content);
    this.heat = new HeatMap(byId("heat"), this.filtered, (place) => this.chooseCell(place));
    this.table = new RunsTable(byId("table"), this.filtered, () => this.visible());
    this.describe();
    this.makeFilters();
    this.makeAxes();
    this.connect();
    new Theme(byId("theme"));
    paintScale(byId("scale"));
    this.draw();
  }

  describe() {
    const { runs, parameters, name, title } = this.content;
    const done = runs.filter((run) => run.status === "done").length;
    const combinations = this.filtered.grouped(runs, (run) => run.parameters).size;
    byId("name").textContent = name || "study";
    byId("title").textContent = title;
    byId("title").hidden = !title;
    const many = (count, word) => `${numberText(count, 9)} ${word}${count === 1 ? "" : "s"}`;
    const facts = [many(parameters.length, "parameter"), many(combinations, "combination"), many(runs.length, "run")];
    byId("facts").append(...facts.map((fact) => element("li", { textContent: fact })));
    byId("missing").textContent = `${runs.length - done} not done`;
    byId("missing").hidden = done === runs.length;
  }

  makeFilters() {
    this.selects = this.content.parameters.map(({ key, values }, i) => {
      const select = element("select", {}, element("option", { value: "", textContent: "all" }),
        ...values.map((value, at) => element("option", { value: String(at), textContent: valueText(value) })));
      select.addEventListener("change", () => {
        this.filtered.chosen[i] = select.value === "" ? null : values[Number(select.value)];
        this.draw();
      });
      byId("filters").append(element("label", {}, key, select));
      return select;
    });
  }

  makeAxes() {
    const { parameters, results } = this.content;
    byId("metric").append(...results.map((result, i) => element("option", { value: String(i), textContent: resultName(result) })));
    if (results.length) byId("metric").value = String(this.content.in_map);
    for (const id of ["down", "across"]) {
      byId(id).append(...parameters.map(({ key }, i) => element("option", { value: String(i), textContent: key })),
        element("option", { value: "", textContent: "nothing" }));
    }
    byId("across").value = parameters.length ? String(Math.min(1, parameters.length - 1)) : "";
    byId("down").value = parameters.length > 1 ? "0" : "";
  }

  connect() {
    for (const id of ["metric", "across", "down"]) byId(id).addEventListener("change", () => this.axesChanged(id));
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

  /** One parameter cannot go both down and across. */
  axesChanged(id) {
    const other = id === "across" ? "down" : "across";
    if (id !== "metric" && byId(id).value !== "" && byId(id).value === byId(other).value) byId(other).value = "";
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
    Object.assign(heat, { result: axis("metric") ?? 0, across: axis("across"), down: axis("down") });
    this.selects.forEach((select, i) => {
      const at = this.content.parameters[i].values.indexOf(filtered.chosen[i]);
      select.value = at < 0 ? "" : String(at);
    });
    heat.draw();
    const rows = table.draw();
    byId("by-combination").setAttribute("aria-pressed", String(table.byCombination));
    byId("by-run").setAttribute("aria-pressed", String(!table.byCombination));
    byId("table-title").textContent = table.byCombination ? "Combinations" : "Runs";
    byId("count").textContent = `${numberText(rows, 9)} shown${table.byCombination ? ", mean ± 95 % interval over their runs" : ""}`;
    byId("clear").disabled = filtered.words.length === 0 && filtered.chosen.every((value) => value === null);
  }
}

window.study = new StudyPage(pageContent()); // within reach of the browser's console and of tests
