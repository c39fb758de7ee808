// One run on the page: its map with the line above it, and what the vehicle is doing.

const HOLD_S = 0.5; // how long links stay as they are while playing, in real seconds; then they fade
const FADE_S = 0.5;
const still = matchMedia("(prefers-reduced-motion: reduce)");

class Stage {
  /** number: of the run on the page; several: whether there are others; handlers: changed(), select(client), hover(client). */
  constructor(content, arrays, { number, several, handlers }) {
    this.root = byId("stage").content.firstElementChild.cloneNode(true);
    this.parts = new Map([...this.root.querySelectorAll("[data-part]")].map((part) => [part.dataset.part, part]));
    this.history = new RunHistory(content, arrays);
    this.view = new View(content.size_m);
    this.handlers = handlers;
    this.together = [this]; // the stages that are zoomed and panned with this one
    this.following = -1; // a vehicle; -1 for none
    this.part("map").style.setProperty("--aspect", String(content.size_m[1] / content.size_m[0]));
    this.part("title").hidden = !several;
    if (several) this.root.setAttribute("aria-label", `Run ${"AB"[number]}: ${content.title}`);
    this.part("name").textContent = content.title;
    this.part("mark").textContent = "AB"[number];
    this.part("mark").style.background = `var(--run-${number})`;
    const runColour = several && this.history.vehicles === 1 ? `run-${number}` : null;
    this.map = new MapDrawing(this.part("live"), this.history, this.view, runColour);
    this.connect();
  }

  part(name) {
    return this.parts.get(name);
  }

  connect() {
    this.part("zoom-in").addEventListener("click", () => this.zoom(1.4));
    this.part("zoom-out").addEventListener("click", () => this.zoom(1 / 1.4));
    this.part("zoom-reset").addEventListener("click", () => this.reset());
    this.part("follow").addEventListener("click", () => this.follow());
    const { changed, select, hover } = this.handlers;
    const each = (action) => { this.together.forEach(action); changed(); };
    new Gestures(this.part("live"), {
      pan: (dx, dy) => each((stage) => { stage.following = -1; stage.view.panBy(dx, dy); }),
      zoom: (px, py, factor) => each((stage) => stage.view.zoomAt(px, py, factor)),
      hover: (px, py) => hover(this.map.clientAt(px, py)),
      leave: () => hover(null),
      tap: (px, py) => select(this.map.clientAt(px, py, 22)),
    });
  }

  zoom(factor) {
    for (const { view } of this.together) view.zoomAt(view.width / 2, view.height / 2, factor);
    this.handlers.changed();
  }

  reset() {
    for (const stage of this.together) {
      stage.following = -1;
      stage.view.reset();
    }
    this.handlers.changed();
  }

  /** Keep the vehicle in the centre; of several, the next one at each call, and none after the last. */
  follow() {
    this.following = this.following + 1 < this.history.vehicles ? this.following + 1 : -1;
    if (this.following >= 0 && this.view.zoom < 1.5) this.zoom(3 / this.view.zoom);
    this.handlers.changed();
  }

  hasClient(client) {
    return client !== null && client < this.history.clients;
  }

  resize() {
    const box = this.part("map").getBoundingClientRect();
    if (box.width >= 1 && box.height >= 1) this.map.resize(box.width, box.height);
  }

  // --- at a time, not after the run's own end ------------------------------------------------------------------

  /** Draw the map; `speed` is the speed at which it is played, 0 where links of past contacts are not shown. */
  draw(at, { speed, selected, hovered }) {
    const { history, view, following } = this;
    const time = Math.min(at, history.end);
    history.moveTo(time);
    history.accuracies.moveTo(time);
    if (following >= 0 && !Number.isNaN(history.x[following])) {
      view.centreOn(history.x[following], history.y[following]);
    }
    const clients = [hovered, selected].filter((client) => this.hasClient(client));
    this.map.draw(time, { hold: HOLD_S * speed, fade: still.matches ? 0 : FADE_S * speed, clients: new Set(clients) });
  }

  /** Update the line above the map. */
  write(at) {
    const { history } = this;
    const time = Math.min(at, history.end);
    const ended = at > history.end + 1e-6 ? "; the run has ended" : "";
    setText(this.part("clock"), clockText(time));
    setText(this.part("visit"), `contact ${numberText(this.begun(time), 9)} of ${numberText(history.contacts, 9)}`);
    setText(this.part("now"), this.doing(time) + ended);
    this.part("follow").setAttribute("aria-pressed", String(this.following >= 0));
  }

  /** Number of contacts that have begun. */
  begun(time) {
    const { history } = this;
    return history.contactsUntil(time) + history.contactsNear(time, 0).filter((i) => history.contactEnd(i) > time).length;
  }

  /** The number of contacts and what the vehicle is doing, to be read out. */
  inWords(at) {
    const time = Math.min(at, this.history.end);
    return `contact ${this.begun(time)}, ${this.doing(time)}`;
  }

  /** What the vehicle is doing, as text. */
  doing(time) {
    const { history } = this;
    if (history.vehicles > 1) {
      const busy = new Set(history.contactsNear(time, 0).map((i) => history.arrays.contact_vehicle[i])).size;
      return `${busy} of ${history.vehicles} vehicles in contact`;
    }
    const { last, next } = history.around(0, time);
    if (last !== undefined && history.contactEnd(last) >= time) {
      const exchanges = history.exchanges(last);
      const delivered = exchanges.filter((exchange) => exchange.delivered).length;
      return `with client ${history.arrays.contact_client[last]}: ${delivered} of ${exchanges.length} delivered`;
    }
    const passing = history.contactsNear(time, 0).map((i) => history.arrays.contact_client[i]);
    const serving = passing.length ? `, serving ${passing.join(", ")} in passing` : "";
    if (next !== undefined) return `on the way to client ${history.arrays.contact_client[next]}${serving}`;
    return passing.length ? serving.slice(2) : "no more visits";
  }
}
