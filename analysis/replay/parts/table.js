// The table: a line per combination or per run, sorted by any column.

class RunsTable {
  constructor(target, filtered, visible) {
    Object.assign(this, { target, filtered, visible }); // visible(): indices of the results shown
    this.byCombination = true;
    this.sorted = null; // name of a column
    this.descending = false;
  }

  /** Columns of { name, unit, number, value(row), show(cell, row) }; a row is a list of runs. */
  columns() {
    const { parameters, results } = this.filtered.content;
    const found = parameters.map(({ name, unit }, i) => ({
      name,
      unit,
      value: ([run]) => run.parameters[i],
      show: (cell, [run]) => { cell.textContent = valueText(run.parameters[i]); },
    }));
    if (!this.byCombination) found.push(this.seedColumn());
    found.push(this.byCombination ? this.countColumn() : this.statusColumn());
    for (const i of this.visible()) {
      found.push({
        ...results[i],
        number: true,
        value: (runs) => this.filtered.mean(runs, i).mean,
        show: (cell, runs) => this.showMean(cell, this.filtered.mean(runs, i), i),
      });
    }
    const all = this.filtered.content.runs;
    if (all.some((run) => run.link)) found.push(this.linkColumn());
    if (!this.byCombination && all.some((run) => run.error)) found.push(this.errorColumn());
    return found;
  }

  seedColumn() {
    return { name: "seed", number: true, value: ([run]) => run.seed, show: (cell, [run]) => { cell.textContent = String(run.seed); } };
  }

  countColumn() {
    const done = (runs) => runs.filter(isDone).length;
    return {
      name: "runs",
      number: true,
      value: done,
      show: (cell, runs) => {
        cell.textContent = countText(runs);
        cell.classList.toggle("failed", done(runs) < runs.length);
      },
    };
  }

  statusColumn() {
    return {
      name: "status",
      value: ([run]) => run.status,
      show: (cell, [run]) => {
        cell.textContent = run.status;
        cell.classList.toggle("failed", run.status !== "done");
      },
    };
  }

  errorColumn() {
    return {
      name: "error",
      value: ([run]) => run.error ?? "",
      show: (cell, [run]) => {
        cell.textContent = run.error ?? "";
        cell.title = run.error ?? "";
        cell.classList.add("error");
      },
    };
  }

  linkColumn() {
    return {
      name: "replay",
      value: (runs) => runs.filter((run) => run.link).length,
      show: (cell, runs) => {
        const links = runs.filter((run) => run.link).map((run) => element("a", {
          href: run.link, textContent: this.byCombination ? String(run.seed) : "open", title: `Replay of seed ${run.seed}`,
        }));
        cell.append(element("span", { className: "links" }, ...(this.byCombination && links.length ? ["seed", ...links] : links)));
      },
    };
  }

  showMean(cell, { mean, width, count }, result) {
    if (!count) {
      cell.textContent = "–";
      return;
    }
    cell.textContent = this.filtered.resultText(mean, result);
    if (width > 0) cell.append(element("small", { textContent: ` ± ${this.filtered.widthText(width, result)}` }));
  }

  rows() {
    const shown = this.filtered.shown();
    return this.byCombination ? [...this.filtered.grouped(shown, (run) => run.parameters).values()] : shown.map((run) => [run]);
  }

  sort(name) {
    this.descending = this.sorted === name && !this.descending;
    this.sorted = name;
    this.draw();
  }

  draw() {
    const columns = this.columns();
    const rows = this.rows();
    const by = columns.find((column) => column.name === this.sorted);
    rows.sort((a, b) => Number(!a.some(isDone)) - Number(!b.some(isDone))); // what has results comes first
    if (by) rows.sort((a, b) => (this.descending ? compare(by.value(b), by.value(a)) : compare(by.value(a), by.value(b))));
    const head = element("tr", {}, ...columns.map((column) => this.heading(column)));
    const body = rows.map((row) => element("tr", {}, ...columns.map((column) => {
      const cell = element("td", { className: column.number ? "number" : "" });
      column.show(cell, row);
      return cell;
    })));
    this.target.replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
    return rows.length;
  }

  heading(column) {
    const button = element("button", { type: "button", textContent: column.name });
    if (column.unit) button.append(element("small", { textContent: column.unit }));
    button.addEventListener("click", () => {
      this.sort(column.name);
      [...this.target.querySelectorAll("th button")].find((other) => other.dataset.name === column.name)?.focus();
    });
    button.dataset.name = column.name;
    const heading = element("th", { scope: "col", className: column.number ? "number" : "" }, button);
    if (column.name === this.sorted) heading.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
    return heading;
  }
}

/** Numbers by size, others by their letters; what is not known comes last. */
function compare(a, b) {
  const unknown = (value) => value === null || Number.isNaN(value);
  if (unknown(a) || unknown(b)) return Number(unknown(a)) - Number(unknown(b));
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
}
