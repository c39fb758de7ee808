// The cards with curves: accuracies and bytes of one run, or the same quantities of two runs on the same axes.

/** Every curve of a run, by name. */
function curvesOf(history) {
  const { arrays, content } = history;
  const times = [0, ...Array.from({ length: history.contacts }, (_, i) => history.contactEnd(i))];
  const accuracy = (name, start) => curve(times, [start ?? NaN, ...arrays[name]]);
  return {
    personal: accuracy("personal_test_acc_mean", content.start.personal),
    token: accuracy("token_test_acc", content.start.token),
    alone: accuracy("alone_test_acc_mean", content.start.alone),
    down: curve(times, [0, ...arrays.bytes_down]),
    up: curve(times, [0, ...arrays.bytes_up]),
    bytes: curve(times, [0, ...arrays.bytes_down.map((down, i) => down + arrays.bytes_up[i])]),
  };
}

/** The cards of one run: a line is { id, label, colour, dash, text, times, values }. */
function cardsOfOne([curves]) {
  const share = (id, dash) => ({ id, label: id, colour: id, dash, text: percentText, ...curves[id] });
  const bytes = (id, label, dash) => ({ id, label, colour: id, dash, text: bytesText, ...curves[id] });
  return [
    { id: "accuracy", title: "Test accuracy", note: "mean over clients", top: 1,
      lines: [share("personal", "solid"), share("token", "dashed"), share("alone", "dotted")] },
    { id: "bytes", title: "Bytes on the air", note: "in total",
      lines: [bytes("down", "to clients", "solid"), bytes("up", "from clients", "dashed")] },
  ];
}

/** The cards of two runs, A solid and B dashed. */
function cardsOfTwo(all) {
  const both = (id, text) => all.map((curves, i) => ({
    id: `${id}-${i}`, label: "AB"[i], colour: `run-${i}`, dash: i ? "dashed" : "solid", text, ...curves[id],
  }));
  const alone = all.map((curves, i) => ({
    id: `alone-${i}`, label: `${"AB"[i]} alone`, colour: "alone", dash: i ? "dashed" : "dotted", text: percentText, ...curves.alone,
  }));
  return [
    { id: "accuracy", title: "Personal test accuracy", note: "mean over clients", top: 1,
      lines: [...both("personal", percentText), ...alone] },
    { id: "token", title: "Token test accuracy", note: "mean over clients", top: 1, lines: both("token", percentText) },
    { id: "bytes", title: "Bytes on the air", note: "in total", lines: both("bytes", bytesText) },
  ];
}

/** A card with a chart, and the values of its curves at the present time. */
class CurveCard {
  constructor(parent, { id, title, note, lines, top }, end, seek) {
    this.title = title;
    this.lines = lines.filter((line) => line.times.length || line.id === "personal");
    const canvas = element("canvas", { className: "chart", id: `${id}-chart` });
    canvas.setAttribute("role", "img");
    const names = this.lines.map((line) => line.label).join(", ");
    canvas.setAttribute("aria-label", `${title}, ${note}, over simulated time: ${names}. Click to jump to a time.`);
    this.values = this.lines.map((line) => element("b", { id: `${line.id}-now` }));
    parent.append(element("section", { className: "card" },
      element("h2", {}, title, " ", element("small", { textContent: note })),
      element("ul", { className: "readout" }, ...this.lines.map((line, i) => element("li", {}, swatch(line), line.label, " ", this.values[i]))),
      canvas));
    const most = Math.max(1, ...this.lines.flatMap(({ values }) => values.slice(-1)));
    const text = lines[0].text === percentText ? (share) => percentText(share, 0) : bytesText;
    // The first line is drawn last, on top of the others.
    this.chart = new Chart(canvas, { lines: [...this.lines].reverse(), end, top: top ?? roundAbove(most), text, seek });
  }

  write(time) {
    this.lines.forEach((line, i) => setText(this.values[i], line.text(lastValue(line, time))));
  }
}

/** A short piece of a line, for a legend. */
function swatch({ colour, dash }) {
  const path = svgElement("path", { d: "M0 2h20", "stroke-dasharray": DASHES[dash].join(" ") });
  path.style.stroke = `var(--${colour})`;
  return svgElement("svg", { viewBox: "0 0 20 4", class: "swatch", "aria-hidden": "true" }, path);
}
