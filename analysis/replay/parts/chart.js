// Curves over simulated time: the past solid, the future faint; a click jumps to that time.

const DASHES = { solid: [], dashed: [5, 3], dotted: [1.5, 3] };

class Chart {
  /** lines: { times, values, colour (its name in the style sheet), dash }, without nan. */
  constructor(canvas, { lines, end, top, text, seek }) {
    Object.assign(this, { canvas, lines, end, top, text });
    this.cached = [document.createElement("canvas"), document.createElement("canvas")]; // past and future
    const go = (event) => {
      const box = canvas.getBoundingClientRect();
      seek(((event.clientX - box.left - this.left) / this.wide) * end);
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      go(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (canvas.hasPointerCapture(event.pointerId)) go(event);
    });
  }

  resize(colour) {
    const box = this.canvas.getBoundingClientRect();
    this.ratio = Math.min(devicePixelRatio || 1, 2);
    this.colour = colour;
    for (const canvas of [this.canvas, ...this.cached]) {
      canvas.width = Math.max(1, Math.round(box.width * this.ratio));
      canvas.height = Math.max(1, Math.round(box.height * this.ratio));
    }
    this.left = 48;
    this.high = box.height - 26;
    this.wide = Math.max(1, box.width - this.left - 8);
    this.cached.forEach((canvas, i) => this.drawAll(canvas.getContext("2d"), i === 1));
  }

  atX(time) {
    return this.left + (this.end > 0 ? time / this.end : 0) * this.wide;
  }

  atY(value) {
    return 6 + this.high * (1 - value / this.top);
  }

  drawAll(context, future) {
    context.scale(this.ratio, this.ratio);
    this.drawAxes(context);
    context.globalAlpha = future ? 0.3 : 1;
    context.lineJoin = "round";
    for (const { times, values, colour, dash } of this.lines) {
      context.beginPath();
      let pen = false;
      for (let i = 0; i < times.length; i++) {
        if (Number.isNaN(values[i])) continue;
        context[pen ? "lineTo" : "moveTo"](this.atX(times[i]), this.atY(values[i]));
        pen = true;
      }
      context.strokeStyle = this.colour(colour);
      context.lineWidth = 2;
      context.setLineDash(DASHES[dash]);
      context.stroke();
    }
    context.setLineDash([]);
  }

  drawAxes(context) {
    context.font = `11px ${this.colour("font")}`;
    context.fillStyle = this.colour("muted");
    context.strokeStyle = this.colour("line");
    context.lineWidth = 1;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const share of [0, 0.5, 1]) {
      const y = Math.round(this.atY(share * this.top)) + 0.5;
      context.beginPath();
      context.moveTo(this.left, y);
      context.lineTo(this.left + this.wide, y);
      context.stroke();
      context.fillText(this.text(share * this.top), this.left - 6, y);
    }
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    context.fillText("0", this.left, this.high + 21);
    context.textAlign = "right";
    context.fillText(clockText(this.end), this.left + this.wide, this.high + 21);
  }

  draw(time) {
    const context = this.canvas.getContext("2d");
    const x = this.atX(time);
    const cut = Math.round(x * this.ratio);
    const { width, height } = this.canvas;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, width, height);
    if (cut > 0) context.drawImage(this.cached[0], 0, 0, cut, height, 0, 0, cut, height);
    if (cut < width) context.drawImage(this.cached[1], cut, 0, width - cut, height, cut, 0, width - cut, height);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = this.colour("ink");
    context.fillRect(x - 0.5, 6, 1, this.high);
    for (const line of this.lines) {
      const last = lastPoint(line, time);
      if (last < 0) continue;
      context.beginPath();
      context.arc(this.atX(line.times[last]), this.atY(line.values[last]), 4, 0, 2 * Math.PI);
      context.fillStyle = this.colour(line.colour);
      context.fill();
      context.strokeStyle = this.colour("surface");
      context.lineWidth = 1.5;
      context.stroke();
    }
  }
}

/** A curve without its unknown points. */
function curve(times, values) {
  const known = Array.from(values.keys()).filter((i) => !Number.isNaN(values[i]));
  return { times: known.map((i) => times[i]), values: known.map((i) => values[i]) };
}

/** The last point of a curve at or before a time; -1 if there is none. */
function lastPoint({ times }, time) {
  return countUpTo(times, time + 1e-3) - 1;
}

/** The value of a curve at that point; nan if there is none. */
function lastValue(line, time) {
  return line.values[lastPoint(line, time)] ?? NaN;
}
