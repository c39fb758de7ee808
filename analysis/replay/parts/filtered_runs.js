// Runs of a study, which of them the filters let through, and combinations: runs that differ only in their seed.

class FilteredRuns {
  constructor(content) {
    this.content = content;
    this.parameters = content.parameters;
    this.chosen = content.parameters.map(() => null); // a value of each parameter; null for all
    this.words = [];
    this.texts = content.runs.map((run) => this.textOf(run));
    this.digits = content.results.map((_, i) => this.digitsOf(i));
  }

  /** All that a search looks at. */
  textOf(run) {
    const named = run.parameters.map((value, i) => `${this.parameters[i].key}=${valueText(value)}`);
    return [...named, `seed=${run.seed}`, run.status, run.error ?? "", run.run].join(" ").toLowerCase();
  }

  /** Digits after the point that suit all values of a result: three that count in the largest. */
  digitsOf(result) {
    const values = this.content.runs.map((run) => run.results[result]).filter((value) => value !== null);
    const most = values.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
    return most > 0 ? Math.min(Math.max(2 - Math.floor(Math.log10(most)), 0), 8) : 0;
  }

  /** A value of a result as text, alike for all values of it. */
  resultText(value, result) {
    const digits = this.digits[result];
    return Number.isInteger(value) && Math.abs(value) < 1e9 && !this.content.results[result].unit
      ? numberText(value, 9)
      : value.toLocaleString("en-GB", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }

  search(text) {
    this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
  }

  /** Runs that pass all filters, but for those of some parameters. */
  shown(but = []) {
    return this.content.runs.filter((run, i) =>
      this.chosen.every((value, p) => value === null || run.parameters[p] === value || but.includes(p))
      && this.words.every((word) => this.texts[i].includes(word)));
  }

  /** Runs by the values of some parameters, in the order in which they come. */
  grouped(runs, keyOf) {
    const groups = new Map();
    for (const run of runs) {
      const key = JSON.stringify(keyOf(run));
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(run);
    }
    return groups;
  }

  /** Mean of a result over runs, half-width of its 95 % interval (nan for one run) and how many there are. */
  mean(runs, result) {
    const values = runs.map((run) => run.results[result]).filter((value) => value !== null);
    const count = values.length;
    if (!count) return { mean: NaN, width: NaN, count };
    const mean = values.reduce((sum, value) => sum + value, 0) / count;
    const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
    const t = this.content.t975[Math.min(count - 2, this.content.t975.length - 1)];
    return { mean, width: count < 2 ? NaN : (t ?? NaN) * Math.sqrt(squares / (count - 1) / count), count };
  }
}

/** A parameter's value as text. */
function valueText(value) {
  return typeof value === "number" ? numberText(value, 6) : String(value);
}

/** What a result is called, with its unit. */
function resultName({ name, unit }) {
  return unit ? `${name}, ${unit}` : name;
}
