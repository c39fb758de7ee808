// Clients on the map: a mark whose shape is the client's group and whose colour is its accuracy.

const SHADES = 64; // of the accuracy scale
const CORNERS = { square: 4, diamond: 4, triangle: 3, wedge: 3, pentagon: 5, hexagon: 6, star: 10 };
const TURN = { square: Math.PI / 4, wedge: Math.PI, hexagon: Math.PI / 6 };
const SHAPES = ["circle", ...Object.keys(CORNERS)];

/** Corners of a shape of about the area of a disc with this radius, as [x, y] from its middle; none: a disc. */
function cornersOf(shape, radius) {
  const count = CORNERS[shape] ?? 0;
  const outer = radius * { 0: 1, 3: 1.45, 4: 1.2, 5: 1.12, 6: 1.08, 10: 1.4 }[count];
  return Array.from({ length: count }, (_, i) => {
    const far = shape === "star" && i % 2 ? 0.5 * outer : outer;
    const angle = (TURN[shape] ?? 0) + (2 * Math.PI * i) / count;
    return [far * Math.sin(angle), -far * Math.cos(angle)];
  });
}

/** Trace a shape round the origin. */
function traceShape(context, shape, radius) {
  context.beginPath();
  const corners = cornersOf(shape, radius);
  if (corners.length) corners.forEach(([x, y], i) => context[i ? "lineTo" : "moveTo"](x, y));
  else context.arc(0, 0, radius, 0, 2 * Math.PI);
  context.closePath();
}

/** A drawing of a shape for the legend. */
function shapeFigure(shape) {
  const corners = cornersOf(shape, 5);
  const figure = corners.length ? svgElement("polygon", { points: corners.map((at) => at.map((part) => part.toFixed(2)).join(",")).join(" ") })
    : svgElement("circle", { r: "5" });
  return svgElement("svg", { viewBox: "-14 -8 28 16", class: "shape", "aria-hidden": "true" }, figure);
}

class ClientMarks {
  /** range: lowest and highest accuracy on the scale. */
  constructor(history, view, range) {
    Object.assign(this, { history, view, range });
    this.sprites = null;
  }

  /** Radius of a client in pixels: smaller if there are many, larger when zoomed in. */
  get radius() {
    const plain = this.history.clients > 400 ? 3.5 : this.history.clients > 120 ? 4.5 : 6;
    return Math.min(14, plain * this.view.figureScale * Math.max(1, this.view.zoom) ** 0.35);
  }

  /** Forget the images: colours or the resolution have changed. */
  forget() {
    this.sprites = null;
  }

  /** Images of one shape: one for each shade of the scale, and one for an unknown accuracy. */
  imagesOf(shape, radius, ratio, colour) {
    const make = (fill) => {
      const sprite = document.createElement("canvas");
      sprite.width = sprite.height = Math.ceil(this.side(radius) * ratio);
      const context = sprite.getContext("2d");
      context.scale(ratio, ratio);
      context.translate(this.side(radius) / 2, this.side(radius) / 2);
      traceShape(context, shape, radius);
      context.fillStyle = fill;
      context.fill();
      context.lineJoin = "round";
      context.strokeStyle = colour("client-edge");
      context.lineWidth = radius < 4.5 ? 0.8 : 1.25;
      context.stroke();
      return sprite;
    };
    const shades = Array.from({ length: SHADES }, (_, i) => make(rgb(scaleColour(i / (SHADES - 1)))));
    return [...shades, make(colour("unknown"))];
  }

  side(radius) {
    return 3 * radius + 4;
  }

  /** Draw all clients that are present, with the accuracies that `history.accuracies` has. */
  draw(context, ratio, colour) {
    const { history, view, radius } = this;
    if (!this.sprites || this.drawnRadius !== radius) {
      this.sprites = new Map();
      this.drawnRadius = radius;
    }
    const [low, high] = this.range;
    const side = this.side(radius);
    for (let client = 0; client < history.clients; client++) {
      const node = history.vehicles + client;
      if (Number.isNaN(history.x[node])) continue;
      const x = view.screenX(history.x[node]);
      const y = view.screenY(history.y[node]);
      if (x < -side || y < -side || x > view.width + side || y > view.height + side) continue;
      const shape = history.groups.shapeOf(client);
      if (!this.sprites.has(shape)) this.sprites.set(shape, this.imagesOf(shape, radius, ratio, colour));
      const accuracy = history.accuracies.of(client);
      const share = (accuracy - low) / (high - low);
      const shade = Number.isNaN(accuracy) ? SHADES : Math.round(Math.min(Math.max(share, 0), 1) * (SHADES - 1));
      context.drawImage(this.sprites.get(shape)[shade], x - side / 2, y - side / 2, side, side);
    }
  }
}

/** Groups of the clients: squads, herds, sites or those of the scenario. */
class Groups {
  constructor(names, of) {
    Object.assign(this, { names, of });
    this.haveShapes = names.length <= SHAPES.length; // otherwise their names stand on the map
  }

  shapeOf(client) {
    return this.names.length && this.haveShapes ? SHAPES[this.of[client]] : "circle";
  }

  nameOf(client) {
    return this.names.length ? this.names[this.of[client]] : "";
  }

  /** Mean position of each group's clients that are present, in metres, as [name, x, y]. */
  middles(history) {
    const sums = this.names.map(() => [0, 0, 0]);
    for (let client = 0; client < history.clients; client++) {
      const node = history.vehicles + client;
      if (Number.isNaN(history.x[node])) continue;
      const sum = sums[this.of[client]];
      sum[0] += history.x[node];
      sum[1] += history.y[node];
      sum[2] += 1;
    }
    return sums.flatMap(([x, y, count], i) => (count ? [[this.names[i], x / count, y / count]] : []));
  }
}
