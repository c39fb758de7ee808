// The ground: surfaces, obstacles, jamming zones and roads, with names, an edge and a scale bar.

/** A repeating tile of dots, for areas that only weaken radio. */
function dots(context, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const drawing = tile.getContext("2d");
  drawing.fillStyle = colour;
  for (const [x, y] of [[2, 2], [6, 6]]) {
    drawing.beginPath();
    drawing.arc(x, y, 0.9, 0, 2 * Math.PI);
    drawing.fill();
  }
  return context.createPattern(tile, "repeat");
}

/** Width of a ring in metres. */
function widthOf(ring) {
  const xs = ring.map(([x]) => x);
  return xs.reduce((a, b) => Math.max(a, b)) - xs.reduce((a, b) => Math.min(a, b));
}

class Ground {
  constructor(content) {
    this.size = content.size_m;
    this.schematic = content.schematic;
    this.shapes = content.ground.shapes.map((shape) => ({ ...shape, width: widthOf(shape.rings[0]) }));
    this.roads = content.ground.roads;
  }

  draw(context, view, colour) {
    const [left, right] = [view.screenX(0), view.screenX(this.size[0])];
    const [bottom, top] = [view.screenY(0), view.screenY(this.size[1])];
    context.fillStyle = colour("ground");
    context.fillRect(left, top, right - left, bottom - top);
    this.drawRoads(context, view, colour);
    const screen = dots(context, colour("screen-dots"));
    for (const shape of this.shapes) {
      this.trace(context, view, shape.rings);
      context.fillStyle = colour(shape.kind);
      context.fill("evenodd");
      if (shape.kind === "screen") {
        context.fillStyle = screen;
        context.fill("evenodd");
      }
      context.strokeStyle = colour(`${shape.kind}-edge`);
      context.lineWidth = 1;
      context.setLineDash(["screen", "jammed"].includes(shape.kind) ? [4, 3] : []);
      context.stroke();
      context.setLineDash([]);
    }
    context.strokeStyle = colour("ground-edge");
    context.lineWidth = 1;
    context.strokeRect(left + 0.5, top + 0.5, right - left - 1, bottom - top - 1);
    this.drawNames(context, view, colour);
    if (!this.schematic) this.drawScale(context, view, colour, right, bottom);
  }

  drawRoads(context, view, colour) {
    context.strokeStyle = colour("road");
    context.lineWidth = Math.max(1.5, Math.min(6, 5 * view.scale));
    context.lineJoin = context.lineCap = "round";
    context.beginPath();
    for (const line of this.roads) {
      line.forEach(([x, y], i) => context[i ? "lineTo" : "moveTo"](view.screenX(x), view.screenY(y)));
    }
    context.stroke();
  }

  trace(context, view, rings) {
    context.beginPath();
    for (const ring of rings) {
      ring.forEach(([x, y], i) => context[i ? "lineTo" : "moveTo"](view.screenX(x), view.screenY(y)));
      context.closePath();
    }
  }

  /** Draw names that fit; an obstacle and a surface with the same name and position are named once. */
  drawNames(context, view, colour) {
    const taken = [];
    const named = new Set();
    context.font = `500 11px ${colour("font")}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineJoin = "round";
    for (const shape of [...this.shapes].reverse()) {
      const key = `${shape.name} ${shape.middle}`;
      if (!shape.name || named.has(key)) continue;
      const text = shape.name.length > 28 ? `${shape.name.slice(0, 27)}…` : shape.name;
      const [x, y] = [view.screenX(shape.middle[0]), view.screenY(shape.middle[1])];
      const half = context.measureText(text).width / 2 + 3;
      const box = [x - half, y - 8, x + half, y + 8];
      if (shape.width * view.scale < 1.6 * half || x < 0 || x > view.width || y < 0 || y > view.height) continue;
      if (taken.some(([l, t, r, b]) => box[0] < r && box[2] > l && box[1] < b && box[3] > t)) continue;
      taken.push(box);
      named.add(key);
      const on = shape.kind === "wall" ? "name-on-wall" : "name";
      context.strokeStyle = colour(`${on}-halo`);
      context.lineWidth = 3;
      context.strokeText(text, x, y);
      context.fillStyle = colour(on);
      context.fillText(text, x, y);
    }
  }

  /** Draw a bar of a round length in the lower right corner of the visible map. */
  drawScale(context, view, colour, right, bottom) {
    const metres = roundAbove((60 * view.figureScale) / view.scale);
    const long = metres * view.scale;
    const x = Math.min(right, view.width) - 14;
    const y = Math.min(bottom, view.height) - 14;
    context.strokeStyle = context.fillStyle = colour("muted");
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x - long, y - 5);
    context.lineTo(x - long, y);
    context.lineTo(x, y);
    context.lineTo(x, y - 5);
    context.stroke();
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    context.font = `11px ${colour("font")}`;
    const text = metres >= 1000 ? `${numberText(metres / 1000)} km` : `${numberText(metres)} m`;
    context.fillText(text, x - long / 2, y - 5);
  }
}
