// The map: ground and trail are cached as images, and only their changes are redrawn.

const VEHICLE_COLOURS = 6; // --vehicle-0 … of the style sheet
const TRAIL_ALPHA = 0.5;
const SHADES = 64; // of the accuracy scale in which clients are painted

class MapDrawing {
  constructor(canvas, history, view) {
    // One canvas in the page: every further one costs milliseconds per frame without a GPU.
    this.canvases = { ground: document.createElement("canvas"), trail: document.createElement("canvas"), live: canvas };
    const contexts = Object.entries(this.canvases).map(([name, own]) => [name, own.getContext("2d")]);
    this.contexts = Object.fromEntries(contexts);
    this.history = history;
    this.view = view;
    this.ground = new Ground(history.content);
    this.trailUntil = new Float64Array(history.vehicles); // waypoints on the trail layer
    this.drawn = -1; // the view's version on the lower layers
    this.recolour();
  }

  recolour() {
    const colour = palette();
    const known = new Map();
    this.colour = (name) => {
      if (!known.has(name)) known.set(name, colour(name));
      return known.get(name);
    };
    this.drawn = -1;
    this.sprites = null;
  }

  resize(width, height) {
    this.ratio = Math.min(devicePixelRatio || 1, 2);
    for (const canvas of Object.values(this.canvases)) {
      canvas.width = Math.round(width * this.ratio);
      canvas.height = Math.round(height * this.ratio);
    }
    this.sprites = null;
    this.view.resize(width, height);
  }

  vehicleColour(vehicle) {
    return this.colour(`vehicle-${vehicle % VEHICLE_COLOURS}`);
  }

  /** Draw the map at a time; `history` must already hold the positions of that time. */
  draw(time, { glow = 0, selected = null, hovered = null }) {
    for (const context of Object.values(this.contexts)) context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    if (this.drawn !== this.view.version) {
      const { ground, trail } = this.contexts;
      ground.clearRect(0, 0, this.view.width, this.view.height);
      this.ground.draw(ground, this.view, this.colour);
      trail.clearRect(0, 0, this.view.width, this.view.height);
      this.trailUntil.set(this.history.first.subarray(0, this.history.vehicles));
      this.drawn = this.view.version;
    }
    this.drawTrails();
    const live = this.contexts.live;
    live.clearRect(0, 0, this.view.width, this.view.height);
    live.drawImage(this.canvases.ground, 0, 0, this.view.width, this.view.height);
    live.globalAlpha = TRAIL_ALPHA;
    live.drawImage(this.canvases.trail, 0, 0, this.view.width, this.view.height);
    live.globalAlpha = 1;
    for (let vehicle = 0; vehicle < this.history.vehicles; vehicle++) this.drawPath(live, vehicle, time);
    const near = this.history.contactsNear(time, glow);
    for (const contact of near) this.drawLinks(live, contact, time, glow);
    this.drawClients(live, this.history.evaluationAt(time));
    for (const client of new Set([hovered, selected])) if (client !== null) this.drawRing(live, client);
    for (let vehicle = 0; vehicle < this.history.vehicles; vehicle++) this.drawVehicle(live, vehicle, time, near);
  }

  // --- the path driven ---------------------------------------------------------------------------------------

  /** Add what was driven since the last call to the trail layer; start over if time has gone back. */
  drawTrails() {
    const { history, view } = this;
    const context = this.contexts.trail;
    for (let vehicle = 0; vehicle < history.vehicles; vehicle++) {
      if (history.legs[vehicle] < this.trailUntil[vehicle]) {
        context.clearRect(0, 0, view.width, view.height);
        this.trailUntil.set(history.first.subarray(0, history.vehicles));
        break;
      }
    }
    for (let vehicle = 0; vehicle < history.vehicles; vehicle++) {
      const leg = history.legs[vehicle];
      if (leg === this.trailUntil[vehicle]) continue;
      context.beginPath();
      this.tracePath(context, this.trailUntil[vehicle], leg);
      context.strokeStyle = this.vehicleColour(vehicle);
      context.lineWidth = 1.25;
      context.lineJoin = context.lineCap = "round";
      context.stroke();
      this.trailUntil[vehicle] = leg;
    }
  }

  /** Trace lines from one waypoint to another, with gaps where the node was absent. */
  tracePath(context, from, to) {
    const { track_x: xs, track_y: ys } = this.history.arrays;
    let pen = false;
    for (let i = from; i <= to; i++) {
      if (xs[i] === NOWHERE) {
        pen = false;
        continue;
      }
      context[pen ? "lineTo" : "moveTo"](
        this.view.screenX(this.history.xOf(xs[i])), this.view.screenY(this.history.yOf(ys[i])),
      );
      pen = true;
    }
  }

  /** Draw the path since the vehicle's last visit, bold. */
  drawPath(context, vehicle, time) {
    const { history, view } = this;
    if (Number.isNaN(history.x[vehicle])) return;
    const { last } = history.around(vehicle, time);
    const since = last === undefined ? 0 : history.arrays.contact_end[last];
    const ticks = history.arrays.track_tick;
    let from = history.legs[vehicle];
    while (from > history.first[vehicle] && ticks[from] > since) from--;
    context.beginPath();
    this.tracePath(context, from, history.legs[vehicle]);
    context.lineTo(view.screenX(history.x[vehicle]), view.screenY(history.y[vehicle]));
    context.strokeStyle = this.vehicleColour(vehicle);
    context.lineWidth = 2.5;
    context.lineJoin = context.lineCap = "round";
    context.stroke();
  }

  // --- contacts ----------------------------------------------------------------------------------------------

  /** Draw the links of a contact: delivered ones solid, lost ones dashed; those of past contacts fade. */
  drawLinks(context, contact, time, glow) {
    const { history, view } = this;
    const { contact_x: xs, contact_y: ys } = history.arrays;
    if (xs[contact] === NOWHERE) return;
    const ago = time - history.contactEnd(contact);
    const passing = history.inPassing(contact);
    const vehicle = history.arrays.contact_vehicle[contact];
    const px = view.screenX(passing ? history.x[vehicle] : history.xOf(xs[contact]));
    const py = view.screenY(passing ? history.y[vehicle] : history.yOf(ys[contact]));
    context.globalAlpha = ago > 0 ? Math.max(0, 1 - ago / glow) : 1;
    const range = history.content.range_m;
    if (range && !passing) {
      context.beginPath();
      context.arc(px, py, range * view.scale, 0, 2 * Math.PI);
      context.fillStyle = this.colour("reach");
      context.fill();
    }
    for (const { client, delivered } of history.exchanges(contact)) {
      const node = history.vehicles + client;
      if (Number.isNaN(history.x[node])) continue;
      context.beginPath();
      context.moveTo(px, py);
      context.lineTo(view.screenX(history.x[node]), view.screenY(history.y[node]));
      context.strokeStyle = this.colour(delivered ? "delivered" : "lost");
      context.lineWidth = delivered ? 2 : 2.25;
      context.setLineDash(delivered ? [] : [5, 4]);
      context.stroke();
    }
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  // --- clients and vehicles ----------------------------------------------------------------------------------

  /** Radius of a client in pixels: smaller if there are many, larger when zoomed in. */
  get clientRadius() {
    const plain = this.history.clients > 400 ? 3.5 : this.history.clients > 120 ? 4.5 : 6;
    return Math.min(14, plain * this.view.figureScale * Math.max(1, this.view.zoom) ** 0.35);
  }

  /** Make a disc for each shade of the scale, and one for clients whose accuracy is unknown. */
  makeSprites(radius) {
    const make = (fill) => {
      const sprite = document.createElement("canvas");
      sprite.width = sprite.height = Math.ceil((2 * radius + 4) * this.ratio);
      const context = sprite.getContext("2d");
      context.scale(this.ratio, this.ratio);
      context.beginPath();
      context.arc(radius + 2, radius + 2, radius, 0, 2 * Math.PI);
      context.fillStyle = fill;
      context.fill();
      context.strokeStyle = this.colour("client-edge");
      context.lineWidth = radius < 4.5 ? 0.8 : 1.25;
      context.stroke();
      return sprite;
    };
    this.sprites = Array.from({ length: SHADES }, (_, i) => make(rgb(scaleColour(i / (SHADES - 1)))));
    this.sprites.push(make(this.colour("unknown")));
    this.spriteRadius = radius;
  }

  drawClients(context, evaluation) {
    const { history, view } = this;
    const radius = this.clientRadius;
    if (!this.sprites || this.spriteRadius !== radius) this.makeSprites(radius);
    const [low, high] = history.range;
    const side = 2 * radius + 4;
    for (let client = 0; client < history.clients; client++) {
      const node = history.vehicles + client;
      if (Number.isNaN(history.x[node])) continue;
      const x = view.screenX(history.x[node]);
      const y = view.screenY(history.y[node]);
      if (x < -side || y < -side || x > view.width + side || y > view.height + side) continue;
      const accuracy = history.accuracy(client, evaluation);
      const share = (accuracy - low) / (high - low);
      const shade = Number.isNaN(accuracy) ? SHADES : Math.round(Math.min(Math.max(share, 0), 1) * (SHADES - 1));
      context.drawImage(this.sprites[shade], x - side / 2, y - side / 2, side, side);
    }
  }

  /** Draw a ring around a client, and its number. */
  drawRing(context, client) {
    const node = this.history.vehicles + client;
    if (Number.isNaN(this.history.x[node])) return;
    const x = this.view.screenX(this.history.x[node]);
    const y = this.view.screenY(this.history.y[node]);
    context.beginPath();
    context.arc(x, y, this.clientRadius + 4, 0, 2 * Math.PI);
    context.strokeStyle = this.colour("ink");
    context.lineWidth = 2;
    context.stroke();
    this.drawLabel(context, `client ${client}`, x, y - this.clientRadius - 9);
  }

  drawLabel(context, text, x, y) {
    context.font = `600 12px ${this.colour("font")}`;
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    context.lineJoin = "round";
    context.lineWidth = 4;
    context.strokeStyle = this.colour("name-halo");
    context.strokeText(text, x, y);
    context.fillStyle = this.colour("ink");
    context.fillText(text, x, y);
  }

  /** Draw an arrow in the vehicle's heading; during a contact a ring closes around it. */
  drawVehicle(context, vehicle, time, near) {
    const { history, view } = this;
    if (Number.isNaN(history.x[vehicle])) return;
    const x = view.screenX(history.x[vehicle]);
    const y = view.screenY(history.y[vehicle]);
    const range = history.content.range_m;
    if (range) {
      context.beginPath();
      context.arc(x, y, range * view.scale, 0, 2 * Math.PI);
      context.strokeStyle = this.colour("vehicle-range");
      context.lineWidth = 1;
      context.setLineDash([3, 4]);
      context.stroke();
      context.setLineDash([]);
    }
    context.save();
    context.translate(x, y);
    context.scale(view.figureScale, view.figureScale);
    context.rotate(-history.heading(vehicle));
    context.beginPath();
    context.moveTo(12, 0);
    context.lineTo(-8, -8);
    context.lineTo(-4, 0);
    context.lineTo(-8, 8);
    context.closePath();
    context.lineJoin = "round";
    context.strokeStyle = this.colour("vehicle-halo");
    context.lineWidth = 5;
    context.stroke();
    context.fillStyle = this.vehicleColour(vehicle);
    context.fill();
    context.restore();
    const contact = near.find((i) => history.arrays.contact_vehicle[i] === vehicle && history.contactEnd(i) >= time);
    if (contact !== undefined) {
      const long = history.contactEnd(contact) - history.contactStart(contact);
      const share = long > 0 ? (time - history.contactStart(contact)) / long : 1;
      context.beginPath();
      context.arc(x, y, 16 * view.figureScale, -Math.PI / 2, -Math.PI / 2 + 2 * Math.PI * share);
      context.strokeStyle = this.vehicleColour(vehicle);
      context.lineWidth = 2.5;
      context.stroke();
    }
    if (history.vehicles > 1) this.drawLabel(context, String(history.content.vehicles[vehicle]), x + 14, y - 10);
  }

  /** The client nearest to a pixel, or null if none is within reach. */
  clientAt(px, py, reach = 16) {
    let best = null;
    let least = Math.max(reach, this.clientRadius + 4) ** 2;
    for (let client = 0; client < this.history.clients; client++) {
      const node = this.history.vehicles + client;
      const [x, y] = [this.view.screenX(this.history.x[node]), this.view.screenY(this.history.y[node])];
      const far = (x - px) ** 2 + (y - py) ** 2;
      if (far < least) [best, least] = [client, far];
    }
    return best;
  }
}
