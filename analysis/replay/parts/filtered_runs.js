// Runs of a study, which of them the filters let through, and combinations: runs that differ only in their seed.

class FilteredRuns {
  constructor(content) {
    this.content = content;
    this.parameters = content.parameters;
    this.chosen = content.parameters.map(() => null); // a value of each parameter; null for all
    this.words = [];
    content.runs.forEach((run, i) => { run.index = i; });
    this.texts = content.runs.map((run) => this.textOf(run));
    this.digits = content.results.map((_, i) => this.digitsOf(i));
  }

  /** All that a search looks at. */
  textOf(run) {
    const named = run.parameters.map((value, i) => `${this.parameters[i].key}=${valueText(value)} ${this.parameters[i].name}`);
    return [...named, `seed=${run.seed}`, run.status, run.error ?? "", run.run].join(" ").toLowerCase();
  }

  /** Digits after the point that suit all values of a result: three that count in the largest. */
  digitsOf(result) {
    if (this.content.results[result].share) return 1;
    const values = this.content.runs.map((run) => run.results[result]).filter((value) => value !== null);
    const most = values.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
    return most > 0 ? Math.min(Math.max(2 - Math.floor(Math.log10(most)), 0), 8) : 0;
  }

  /** A value of a result as text, alike for all values of it; differences with their sign. */
  resultText(value, result) {
    const { unit, difference } = this.content.results[result];
    const digits = this.digits[result];
    const text = Number.isInteger(value) && Math.abs(value) < 1e9 && !unit
      ? numberText(value, 9)
      : value.toLocaleString("en-GB", { minimumFractionDigits: digits, maximumFractionDigits: digits });
    const zero = !/[1-9]/.test(text);
    return `${difference && (zero || value > 0) ? "+" : ""}${zero ? text.replace("-", "") : text.replace("-", "−")}`;
  }

  /** Half the width of an interval as text. */
  widthText(width, result) {
    return this.resultText(width, result).replace("+", "");
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

  /** Mean of a result over seeds, half-width of its 95 % interval (nan for one seed), and how many seeds of how many. */
  mean(runs, result) {
    return this.overSeeds(runs, (run) => run.results[result]);
  }

  /** The same of any value of a run; runs of a seed that differ in their parameters are averaged first. */
  overSeeds(runs, valueOf) {
    const bySeed = new Map();
    for (const run of runs) {
      const value = valueOf(run);
      if (value === null) continue;
      const sum = bySeed.get(run.replication) ?? { total: 0, count: 0 };
      bySeed.set(run.replication, { total: sum.total + value, count: sum.count + 1 });
    }
    const values = [...bySeed.values()].map(({ total, count }) => total / count);
    const count = values.length;
    const of = new Set(runs.map((run) => run.replication)).size;
    if (!count) return { mean: NaN, width: NaN, count, of };
    const mean = values.reduce((sum, value) => sum + value, 0) / count;
    const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
    const t = this.content.t975[Math.min(count - 2, this.content.t975.length - 1)];
    return { mean, width: count < 2 ? NaN : (t ?? NaN) * Math.sqrt(squares / (count - 1) / count), count, of };
  }
}

/** A parameter's value as text. */
function valueText(value) {
  if (typeof value !== "number") return String(value);
  const usual = value === 0 || (Math.abs(value) >= 1e-3 && Math.abs(value) < 1e9);
  return usual ? numberText(value, 6) : String(Number(value.toPrecision(6)));
}

/** Whether a run came to an end with results. */
function isDone(run) {
  return run.status === "done";
}

/** How many runs are done of how many, with the reasons of the others. */
function countText(runs) {
  const reasons = ["diverged", "learnt nothing", "failed", "stale", "missing"]
    .map((reason) => [runs.filter((run) => run.status === reason).length, reason])
    .filter(([count]) => count);
  return [`${runs.filter(isDone).length} of ${runs.length}`, ...reasons.map((reason) => reason.join(" "))].join(", ");
}

/** What a result or a parameter is called, with its unit. */
function nameWithUnit({ name, unit }) {
  return unit ? `${name}, ${unit}` : name;
}

/** A parameter with its value, such as "vehicle speed 8 m/s". */
function placeText({ name, unit }, value) {
  return `${name} ${valueText(value)} ${unit}`.trim();
}
