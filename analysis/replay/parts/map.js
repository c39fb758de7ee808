// The map: ground and trail are cached as images, and only their changes are redrawn.

const VEHICLE_COLOURS = 6; // --vehicle-0 … of the style sheet
const TRAIL_ALPHA = 0.5;

class MapDrawing {
  /** runColour: that of the only vehicle of one of two runs; null: vehicles have colours of their own. */
  constructor(canvas, history, view, runColour = null) {
    // One canvas in the page: every further one costs milliseconds per frame without a GPU.
    this.canvases = { ground: document.createElement("canvas"), trail: document.createElement("canvas"), live: canvas };
    const contexts = Object.entries(this.canvases).map(([name, own]) => [name, own.getContext("2d")]);
    this.contexts = Object.fromEntries(contexts);
    this.history = history;
    this.view = view;
    this.runColour = runColour;
    this.marks = new ClientMarks(history, view, [0, 1]);
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
    this.marks.forget();
  }

  resize(width, height) {
    this.ratio = Math.min(devicePixelRatio || 1, 2);
    for (const canvas of Object.values(this.canvases)) {
      canvas.width = Math.round(width * this.ratio);
      canvas.height = Math.round(height * this.ratio);
    }
    this.marks.forget();
    this.view.resize(width, height);
  }

  vehicleColour(vehicle) {
    return this.colour(this.runColour ?? `vehicle-${vehicle % VEHICLE_COLOURS}`);
  }

  /**
   * Draw the map at a time, at which `history` must be already. Links stay for `hold` seconds after their contact, fade
   * for `fade` more; these clients are ringed.
   */
  draw(time, { hold = 0, fade = 0, clients = [] }) {
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
    const near = this.history.contactsNear(time, hold + fade);
    for (const contact of near) this.drawLinks(live, contact, time, hold, fade);
    this.marks.draw(live, this.ratio, this.colour);
    if (!this.history.groups.haveShapes) this.drawGroupNames(live);
    for (const client of clients) this.drawRing(live, client);
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

  /** Draw the links of a contact: delivered ones solid, lost ones dashed; those of past contacts stay, then fade. */
  drawLinks(context, contact, time, hold, fade) {
    const { history, view } = this;
    const { contact_x: xs, contact_y: ys } = history.arrays;
    if (xs[contact] === NOWHERE) return;
    const end = history.contactEnd(contact);
    const past = time > end + history.content.tick_s;
    const passing = history.inPassing(contact);
    const vehicle = history.arrays.contact_vehicle[contact];
    const at = (node) => (past ? history.positionAt(node, end) : [history.x[node], history.y[node]]);
    const [x, y] = passing ? at(vehicle) : [history.xOf(xs[contact]), history.yOf(ys[contact])];
    const [px, py] = [view.screenX(x), view.screenY(y)];
    context.globalAlpha = past && fade ? Math.min(1, Math.max(0, (end + hold + fade - time) / fade)) : 1;
    const range = history.content.range_m;
    if (range && !passing && !past) {
      context.beginPath();
      context.arc(px, py, range * view.scale, 0, 2 * Math.PI);
      context.fillStyle = this.colour("reach");
      context.fill();
    }
    for (const { client, delivered } of history.exchanges(contact)) {
      const [toX, toY] = at(history.vehicles + client);
      if (Number.isNaN(toX)) continue;
      context.beginPath();
      context.moveTo(px, py);
      context.lineTo(view.screenX(toX), view.screenY(toY));
      context.strokeStyle = this.colour(delivered ? "delivered" : "lost");
      context.lineWidth = delivered ? 2 : 2.25;
      context.setLineDash(delivered ? [] : [5, 4]);
      context.stroke();
    }
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  // --- clients and vehicles ----------------------------------------------------------------------------------

  /** Draw a ring around a client, and its number. */
  drawRing(context, client) {
    const node = this.history.vehicles + client;
    if (Number.isNaN(this.history.x[node])) return;
    const x = this.view.screenX(this.history.x[node]);
    const y = this.view.screenY(this.history.y[node]);
    context.beginPath();
    context.arc(x, y, this.marks.radius + 5, 0, 2 * Math.PI);
    context.strokeStyle = this.colour("ink");
    context.lineWidth = 2;
    context.stroke();
    const group = this.history.groups.nameOf(client);
    const above = y - this.marks.radius - 10;
    const labelY = above < 12 ? y + this.marks.radius + 20 : above; // within the map
    this.drawLabel(context, `client ${client}${group && `, ${group}`}`, x, labelY);
  }

  drawGroupNames(context) {
    for (const [name, x, y] of this.history.groups.middles(this.history)) {
      this.drawLabel(context, name, this.view.screenX(x), this.view.screenY(y) - this.marks.radius - 4);
    }
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
      context.strokeStyle = this.vehicleColour(vehicle);
      context.globalAlpha = 0.6;
      context.lineWidth = 1;
      context.setLineDash([3, 4]);
      context.stroke();
      context.setLineDash([]);
      context.globalAlpha = 1;
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
    let least = Math.max(reach, this.marks.radius + 4) ** 2;
    for (let client = 0; client < this.history.clients; client++) {
      const node = this.history.vehicles + client;
      const [x, y] = [this.view.screenX(this.history.x[node]), this.view.screenY(this.history.y[node])];
      const far = (x - px) ** 2 + (y - py) ** 2;
      if (far < least) [best, least] = [client, far];
    }
    return best;
  }
}
