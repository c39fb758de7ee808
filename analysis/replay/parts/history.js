// The run at any simulated time: positions, contacts, and results of all clients.

const NOWHERE = 65535; // as x: absent from this waypoint on
const UNKNOWN = 65535; // marks an unknown accuracy

/** Number of values of a sorted array, between two indices, that do not exceed a limit. */
function countUpTo(values, limit, from = 0, to = values.length) {
  let low = from;
  let high = to;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low - from;
}

/** Sums of all values before each one, then the total. */
function offsetsOf(counts) {
  const offsets = new Uint32Array(counts.length + 1);
  counts.forEach((count, i) => { offsets[i + 1] = offsets[i] + count; });
  return offsets;
}

class RunHistory {
  constructor(content, arrays) {
    this.content = content;
    this.arrays = arrays;
    this.vehicles = content.vehicles.length;
    this.clients = content.clients;
    this.end = content.end_s;
    this.contacts = arrays.contact_end.length;
    this.evaluations = arrays.evaluation_tick.length;
    this.first = offsetsOf(arrays.track_count); // of each node's waypoints
    this.firstId = offsetsOf(arrays.contact_active); // of each contact's clients
    this.legs = this.first.slice(0, -1); // the last waypoint that each node has passed
    this.x = new Float64Array(this.vehicles + this.clients); // metres; nan: absent
    this.y = new Float64Array(this.vehicles + this.clients);
    this.longest = arrays.contact_ticks.reduce((most, ticks) => Math.max(most, ticks), 0);
    this.ofVehicle = Array.from({ length: this.vehicles }, () => []);
    arrays.contact_vehicle.forEach((vehicle, contact) => {
      if (!this.inPassing(contact)) this.ofVehicle[vehicle].push(contact);
    });
    this.middles = Float64Array.from({ length: this.contacts }, (_, i) => (this.contactStart(i) + this.contactEnd(i)) / 2);
    this.middles.sort(); // contacts overlap: a short one in passing may lie within a visit
    this.accuracies = new Accuracies(this);
    this.groups = new Groups(content.groups, arrays.client_group);
  }

  // --- positions ---------------------------------------------------------------------------------------------

  /** A coordinate in metres, from steps. */
  xOf(step) {
    return this.content.corner_m[0] + step * this.content.step_m;
  }

  yOf(step) {
    return this.content.corner_m[1] + step * this.content.step_m;
  }

  /** The last waypoint that a node has passed at a tick; its first one before that. */
  legAt(node, tick) {
    const ticks = this.arrays.track_tick;
    const from = this.first[node];
    const to = this.first[node + 1];
    let leg = this.legs[node];
    // Usually the same leg as before or the next one; otherwise search.
    if (leg + 1 < to && ticks[leg] <= tick && ticks[leg + 1] <= tick) leg += 1;
    if (ticks[leg] > tick || (leg + 1 < to && ticks[leg + 1] <= tick)) {
      leg = from + Math.max(0, countUpTo(ticks, tick, from, to) - 1);
    }
    this.legs[node] = leg;
    return leg;
  }

  /** Set x and y to the positions of all nodes at a time. */
  moveTo(time) {
    const { track_tick: ticks, track_x: xs, track_y: ys } = this.arrays;
    const tick = time / this.content.tick_s;
    for (let node = 0; node < this.x.length; node++) {
      const to = this.first[node + 1];
      if (this.first[node] === to) {
        this.x[node] = NaN;
        continue;
      }
      const leg = this.legAt(node, tick);
      if (xs[leg] === NOWHERE) {
        this.x[node] = NaN;
        continue;
      }
      let x = xs[leg];
      let y = ys[leg];
      const next = leg + 1;
      if (next < to && xs[next] !== NOWHERE && ticks[next] > ticks[leg]) {
        const share = Math.max(0, (tick - ticks[leg]) / (ticks[next] - ticks[leg]));
        x += share * (xs[next] - x);
        y += share * (ys[next] - y);
      }
      this.x[node] = this.xOf(x);
      this.y[node] = this.yOf(y);
    }
  }

  /** Position of a node at any time, in metres; nan if absent. */
  positionAt(node, time) {
    const { track_tick: ticks, track_x: xs, track_y: ys } = this.arrays;
    const tick = time / this.content.tick_s;
    const [from, to] = [this.first[node], this.first[node + 1]];
    const leg = from + Math.max(0, countUpTo(ticks, tick, from, to) - 1);
    if (from === to || xs[leg] === NOWHERE) return [NaN, NaN];
    const next = leg + 1 < to && xs[leg + 1] !== NOWHERE && ticks[leg + 1] > ticks[leg] ? leg + 1 : leg;
    const share = next === leg ? 0 : Math.max(0, (tick - ticks[leg]) / (ticks[next] - ticks[leg]));
    return [this.xOf(xs[leg] + share * (xs[next] - xs[leg])), this.yOf(ys[leg] + share * (ys[next] - ys[leg]))];
  }

  /** Whether a client is present, at the time to which `moveTo` went. */
  isHere(client) {
    return client !== null && client < this.clients && !Number.isNaN(this.x[this.vehicles + client]);
  }

  /** Heading of a vehicle in radians: along its leg, or along the last one on which it moved. */
  heading(vehicle) {
    const { track_x: xs, track_y: ys } = this.arrays;
    const from = this.first[vehicle];
    for (let leg = Math.min(this.legs[vehicle], this.first[vehicle + 1] - 2); leg >= from; leg--) {
      const dx = xs[leg + 1] - xs[leg];
      const dy = ys[leg + 1] - ys[leg];
      if ((dx || dy) && xs[leg] !== NOWHERE && xs[leg + 1] !== NOWHERE) return Math.atan2(dy, dx);
    }
    return Math.PI / 2;
  }

  // --- contacts ----------------------------------------------------------------------------------------------

  /** Whether the vehicle served the client in passing instead of standing still for it. */
  inPassing(contact) {
    return this.arrays.contact_passing[contact] === 1;
  }

  contactEnd(contact) {
    return this.arrays.contact_end[contact] * this.content.tick_s;
  }

  contactStart(contact) {
    return (this.arrays.contact_end[contact] - this.arrays.contact_ticks[contact]) * this.content.tick_s;
  }

  /** Number of contacts that have ended by a time. */
  contactsUntil(time) {
    return countUpTo(this.arrays.contact_end, time / this.content.tick_s + 0.5);
  }

  /** Contacts under way, and those that ended less than `glow` seconds ago. */
  contactsNear(time, glow) {
    const found = [];
    const latest = time / this.content.tick_s + this.longest;
    const first = countUpTo(this.arrays.contact_end, (time - glow) / this.content.tick_s - 0.5);
    for (let i = first; i < this.contacts; i++) {
      if (this.arrays.contact_end[i] > latest) break;
      if (this.contactStart(i) <= time) found.push(i);
    }
    return found;
  }

  /** Clients of a contact, and whether each completed the exchange. */
  exchanges(contact) {
    const from = this.firstId[contact];
    const to = this.firstId[contact + 1];
    const { contact_ids: ids, contact_delivered: delivered } = this.arrays;
    const exchange = (i) => ({ client: ids[from + i], delivered: delivered[from + i] === 1 });
    return Array.from({ length: to - from }, (_, i) => exchange(i));
  }

  /** A vehicle's last visit that has begun, and the next; undefined if there is none. */
  around(vehicle, time) {
    const own = this.ofVehicle[vehicle];
    let low = 0;
    let high = own.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.contactStart(own[middle]) <= time) low = middle + 1;
      else high = middle;
    }
    return { last: own[low - 1], next: own[low] };
  }

  // --- results -----------------------------------------------------------------------------------------------

  /** The last evaluation at or before a time; -1 if there was none. */
  evaluationAt(time) {
    return countUpTo(this.arrays.evaluation_tick, time / this.content.tick_s + 0.5) - 1;
  }

  /** Numbers of a client at a time: accuracy, visits and exchanges by then, the others at the last evaluation. */
  numbers(client, time) {
    const evaluation = this.evaluationAt(time);
    const at = (name) => (evaluation < 0 ? NaN : this.arrays[`client_${name}`][client * this.evaluations + evaluation]);
    const { contact_client: visited, contact_ids: ids, contact_delivered: delivered } = this.arrays;
    const contacts = this.contactsUntil(time);
    let [visits, exchanges] = [0, 0];
    for (let i = 0; i < contacts; i++) if (visited[i] === client && !this.inPassing(i)) visits++;
    for (let i = 0; i < this.firstId[contacts]; i++) if (ids[i] === client && delivered[i]) exchanges++;
    return {
      accuracy: this.accuracies.of(client),
      visits,
      exchanges,
      gradientSteps: at("gradient_steps"),
      bytesDown: at("bytes_down"),
      bytesUp: at("bytes_up"),
    };
  }
}
