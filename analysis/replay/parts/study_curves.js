// Curves over simulated time: a bold one with its interval for each value of one parameter, a thin one per combination.

const CURVES_PX = { height: 300, left: 44, right: 12, top: 8, bottom: 26 };
const TIME_STEPS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
const MOST_BANDS = 4; // that are shown at once, and only of as many seeds; else the line under the pointer has a band
const LEAST_SEEDS = 3;
const LEAST_SPAN = 10; // points, from the bottom of the chart to its top
const DASHES = ["", "6 3", "2 3"]; // where there are more values than colours
const COLOURS = 6; // --vehicle-0 to --vehicle-5

class Curves {
  constructor(target, filtered, readout) {
    Object.assign(this, { target, filtered, readout });
    this.data = filtered.content.curves;
    this.result = 0;
    this.by = null; // index of the parameter to colour by; null for none
    new ResizeObserver(() => target.clientWidth !== this.width && this.draw()).observe(target);
    target.addEventListener("pointermove", (event) => this.point(event));
    target.addEventListener("pointerdown", (event) => this.point(event));
    target.addEventListener("pointerleave", () => this.mark(null));
  }

  draw() {
    this.width = this.target.clientWidth;
    if (!this.width) return;
    const runs = this.filtered.shown().filter((run) => this.series(run));
    this.lines = this.linesOf(runs);
    if (!this.lines.some((line) => line.points.length)) {
      this.target.replaceChildren(element("p", { className: "empty", textContent: "No run with curves passes the filters." }));
      return;
    }
    this.measure();
    const { width } = this;
    const { height, left, right, top, bottom } = CURVES_PX;
    const svg = svgElement("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Curves over simulated time" });
    const clip = svgElement("clipPath", { id: "plot" });
    clip.append(svgElement("rect", { x: left, y: top, width: width - left - right, height: height - top - bottom }));
    const thin = this.lines.filter((line) => !line.bold).length;
    const drawn = svgElement("g", { "clip-path": "url(#plot)" });
    drawn.style.setProperty("--thin", String(Math.min(0.4, Math.max(0.12, 12 / thin)))); // many lines let means show
    const bold = this.lines.filter((line) => line.bold);
    const seeds = Math.max(...bold.flatMap((line) => line.points.map((point) => point.count)));
    this.banded = bold.length === 1 || (bold.length <= MOST_BANDS && seeds >= LEAST_SEEDS);
    for (const line of this.lines) drawn.append(this.band(line, line.bold && this.banded));
    for (const line of this.lines) drawn.append(this.path(line));
    this.dot = svgElement("circle", { r: 4, class: "dot" });
    this.dot.style.display = "none";
    svg.append(clip, ...this.axes(), drawn, this.dot);
    this.target.replaceChildren(svg);
    this.mark(null);
  }

  series(run) {
    return this.data.results[this.result].runs[run.index];
  }

  /** All lines: thin ones first, so that bold ones are above them. */
  linesOf(runs) {
    const { filtered, by } = this;
    const bold = [...filtered.grouped(runs, (run) => (by === null ? null : run.parameters[by])).values()];
    const thin = [...filtered.grouped(runs, (run) => run.parameters).values()];
    const nameOf = ([run], all) => filtered.parameters.filter((_, i) => all || i === by)
      .map((parameter) => placeText(parameter, run.parameters[filtered.parameters.indexOf(parameter)])).join(", ");
    const line = (group, isBold) => ({
      bold: isBold,
      name: isBold && bold.length < thin.length ? `mean, ${nameOf(group, false)}`.replace(/, $/, "") : nameOf(group, true),
      ...this.look(by === null ? null : group[0].parameters[by]),
      points: this.points(group),
    });
    return [...(bold.length < thin.length ? thin.map((group) => line(group, false)) : []), ...bold.map((group) => line(group, true))];
  }

  /** Mean and interval at each time at which all runs of a group are known. */
  points(group) {
    const found = [];
    for (let k = 0; k < this.data.points; k++) {
      if (group.every((run) => this.series(run)[k] !== null)) {
        found.push({ k, ...this.filtered.overSeeds(group, (run) => this.series(run)[k]) });
      }
    }
    return found;
  }

  /** Colour and dashes of a value: numbers from dark to light, words in distinct colours. */
  look(value) {
    const values = this.by === null ? [null] : this.filtered.parameters[this.by].values;
    const at = Math.max(0, values.indexOf(value));
    if (values.length > 2 && values.every((one) => typeof one === "number")) {
      const [from, to] = document.documentElement.dataset.theme === "dark" ? [0.3, 1] : [0, 0.8];
      return { colour: rgb(scaleColour(from + ((to - from) * at) / (values.length - 1))), dashes: "" };
    }
    return { colour: `var(--vehicle-${at % COLOURS})`, dashes: DASHES[Math.floor(at / COLOURS) % DASHES.length] };
  }

  /** Set the ends of both axes to suit the lines; bands may be cut off. */
  measure() {
    const points = this.lines.flatMap((line) => line.points);
    const { unit, difference } = this.data.results[this.result];
    const means = points.map((point) => point.mean).concat(difference ? [0] : []);
    const [lowest, highest] = [Math.min(...means), Math.max(...means)];
    const lacking = Math.max(0, LEAST_SPAN - (highest - lowest)) / 2;
    const [bottom, top] = unit === "%" ? [0, 100] : [-100, 100];
    this.step = roundAbove((highest - lowest + 2 * lacking) / 5);
    this.low = Math.max(bottom, this.step * Math.floor((lowest - lacking) / this.step));
    this.high = Math.min(top, this.step * Math.ceil((highest + lacking) / this.step));
    this.end = (Math.max(...points.map((point) => point.k)) / (this.data.points - 1)) * this.data.end_s;
  }

  atX(k) {
    const { left, right } = CURVES_PX;
    const time = (k / (this.data.points - 1)) * this.data.end_s;
    return left + (this.end > 0 ? time / this.end : 0) * (this.width - left - right);
  }

  atY(value) {
    const { height, top, bottom } = CURVES_PX;
    return top + (height - top - bottom) * (1 - (value - this.low) / (this.high - this.low));
  }

  axes() {
    const { height, left, right, bottom } = CURVES_PX;
    const found = [];
    for (let value = this.low; value <= this.high + 1e-9; value += this.step) {
      const y = Math.round(this.atY(value)) + 0.5;
      found.push(svgElement("line", { x1: left, x2: this.width - right, y1: y, y2: y, class: Math.abs(value) < 1e-9 ? "zero" : "grid" }));
      found.push(label(numberText(value).replace("-", "−"), { x: left - 6, y: y + 4, "text-anchor": "end" }));
    }
    const most = Math.max(2, Math.floor((this.width - left - right) / 80));
    const step = TIME_STEPS.find((one) => this.end / one <= most) ?? 86400 * Math.ceil(this.end / 86400 / most);
    for (let time = 0; time <= this.end * (1 + 1e-9); time += step) {
      const x = left + (this.end > 0 ? time / this.end : 0) * (this.width - left - right);
      found.push(label(clockText(time), { x, y: height - bottom + 18, "text-anchor": time === 0 ? "start" : x > this.width - 40 ? "end" : "middle" }));
    }
    return found;
  }

  path(line) {
    const d = line.points.map(({ k, mean }, i) => `${i ? "L" : "M"}${this.atX(k).toFixed(1)} ${this.atY(mean).toFixed(1)}`).join("");
    line.drawn = svgElement("path", { d, class: line.bold ? "bold" : "thin", "stroke-dasharray": line.dashes });
    line.drawn.style.stroke = line.colour;
    return line.drawn;
  }

  band(line, always) {
    const known = line.points.filter(({ width }) => Number.isFinite(width));
    const at = ({ k, mean, width }, side) => `${this.atX(k).toFixed(1)} ${this.atY(this.possible(mean + side * width)).toFixed(1)}`;
    const edge = [...known.map((point) => at(point, 1)), ...known.reverse().map((point) => at(point, -1))];
    const drawn = svgElement("path", { d: edge.length ? `M${edge.join("L")}Z` : "", class: always ? "band" : "band is-hidden" });
    drawn.style.fill = line.colour;
    line.banded = drawn;
    return drawn;
  }

  /** No accuracy is below 0 or above 100 %. */
  possible(value) {
    const lowest = this.data.results[this.result].difference ? -100 : 0;
    return Math.min(100, Math.max(lowest, value));
  }

  /** Mark the line nearest to the pointer. */
  point(event) {
    const box = this.target.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let nearest = { distance: Infinity };
    for (const line of this.lines ?? []) {
      for (const point of line.points) {
        const distance = Math.hypot(this.atX(point.k) - x, this.atY(point.mean) - y);
        if (distance < nearest.distance) nearest = { distance, line, point };
      }
    }
    this.mark(nearest.distance < 60 ? nearest : null);
  }

  explanation() {
    const thin = this.lines.some((line) => !line.bold) ? "; thin: each combination" : "";
    const band = this.banded ? " with its 95 % interval" : "";
    const pointing = this.banded ? "" : ", with its 95 % interval";
    return `Mean over seeds${band}${thin}. A line covers the time in which all of its runs are known. Point at a line to read it${pointing}.`;
  }

  mark(nearest) {
    const { name, unit, difference } = this.data.results[this.result];
    for (const line of this.lines) {
      for (const drawn of [line.drawn, line.banded]) drawn?.classList.toggle("is-near", line === nearest?.line);
    }
    this.dot?.style.setProperty("display", nearest ? "" : "none");
    if (!nearest) {
      this.readout.textContent = this.explanation();
      return;
    }
    const { line, point } = nearest;
    this.dot.setAttribute("cx", this.atX(point.k));
    this.dot.setAttribute("cy", this.atY(point.mean));
    this.dot.style.fill = line.colour;
    const width = Number.isFinite(point.width) ? ` ± ${point.width.toFixed(1)}` : "";
    const when = clockText((point.k / (this.data.points - 1)) * this.data.end_s);
    const sign = difference && point.mean >= 0 ? "+" : "";
    this.readout.textContent = `${line.name || name}: ${sign}${point.mean.toFixed(1).replace("-", "−")}${width} ${unit} at ${when}`;
  }
}

/** A text at a place. */
function label(text, attributes) {
  return svgElement("text", attributes, text);
}
