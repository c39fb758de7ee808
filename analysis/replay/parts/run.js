// The replay page: connects the parts and draws a frame whenever something has changed.

const WRITE_MS = 60; // between updates of texts and curves while playing: nobody reads faster
const GLOW_S = 0.7; // how long links stay visible while playing, in real seconds
const still = matchMedia("(prefers-reduced-motion: reduce)");

class Replay {
  constructor(content, arrays) {
    this.history = new RunHistory(content, arrays);
    this.view = new View(content.size_m);
    this.player = new Player(this.history.end, () => this.changed());
    this.map = new MapDrawing(byId("live"), this.history, this.view);
    this.selected = null;
    this.hovered = null;
    this.following = -1; // a vehicle; -1 for none
    this.waiting = false; // for the next frame
    this.drawTimes = []; // milliseconds of the last frames, for benchmarks
    this.frames = 0;
    this.card = new ClientCard(this.history, (client) => this.select(client));
    this.charts = this.makeCharts();
    this.describe(content);
    this.connect();
    this.theme = new Theme(byId("theme"), () => this.recolour());
    const help = { toggle: () => this.help.toggle() };
    this.help = new Help(keyTable({ player: this.player, map: this, help, theme: this.theme }));
    new ResizeObserver(() => this.resize()).observe(byId("map"));
    new ResizeObserver(() => this.resize()).observe(byId("accuracy-chart"));
    this.resize();
    const asked = Number(new URLSearchParams(location.hash.slice(1)).get("t"));
    this.player.seek(Number.isFinite(asked) ? asked : 0);
  }

  // --- set up once -------------------------------------------------------------------------------------------

  describe(content) {
    byId("name").textContent = content.name || "run";
    byId("facts").append(...content.facts.map((fact) => element("li", { textContent: fact })));
    byId("ending").textContent = content.ending;
    byId("ending").hidden = !content.ending;
    const [low, high] = this.history.range;
    byId("scale-low").textContent = percentText(low, 0);
    byId("scale-high").textContent = percentText(high, 0);
    paintScale(byId("scale"));
    const kinds = new Set(content.ground.shapes.map((shape) => shape.kind));
    if (content.ground.roads.length) kinds.add("road");
    if (content.range_m) kinds.add("range");
    for (const item of document.querySelectorAll("[data-kind]")) item.hidden = !kinds.has(item.dataset.kind);
    const error = numberText(Math.max(content.exact_to_m, 0.01), 2);
    byId("exact").textContent = content.schematic
      ? "The contact list has no positions: the map is a diagram, with vehicles in the middle and clients round them."
      : `Positions are within ${error} m of those in the run.`;
    for (const speed of SPEEDS) {
      byId("speed").append(element("option", { value: String(speed), textContent: `${numberText(speed, 9)}×` }));
    }
    byId("total").textContent = clockText(this.history.end);
    byId("alone").hidden = !this.lines.alone.times.length;
    byId("map").style.setProperty("--aspect", String(content.size_m[1] / content.size_m[0]));
    const slider = byId("slider");
    slider.max = String(this.history.end || 1);
    slider.step = "any";
  }

  makeCharts() {
    const { arrays, content, contacts, end } = this.history;
    const times = [0, ...Array.from({ length: contacts }, (_, i) => this.history.contactEnd(i))];
    const accuracy = (name, start, rest) => curve(times, [start ?? NaN, ...arrays[name]], rest);
    const down = curve(times, [0, ...arrays.bytes_down], { colour: "down" });
    const up = curve(times, [0, ...arrays.bytes_up], { colour: "up", dashed: true });
    this.lines = {
      personal: accuracy("personal_test_acc_mean", content.start.personal, { colour: "personal" }),
      token: accuracy("token_test_acc", content.start.token, { colour: "token", dashed: true }),
      alone: accuracy("alone_test_acc_mean", content.start.alone, { colour: "alone", dashed: true }),
      down,
      up,
    };
    const most = Math.max(1, down.values.at(-1), up.values.at(-1));
    const seek = (time) => this.player.seek(time);
    return [
      new Chart(byId("accuracy-chart"), {
        lines: [this.lines.alone, this.lines.token, this.lines.personal], end, top: 1, text: (value) => percentText(value, 0), seek,
      }),
      new Chart(byId("bytes-chart"), { lines: [down, up], end, top: roundAbove(most), text: bytesText, seek }),
    ];
  }

  connect() {
    const { player } = this;
    byId("play").addEventListener("click", () => player.toggle());
    byId("previous").addEventListener("click", () => this.contact(-1));
    byId("next").addEventListener("click", () => this.contact(1));
    byId("slider").addEventListener("input", () => player.seek(byId("slider").valueAsNumber));
    byId("speed").addEventListener("change", () => player.setSpeed(Number(byId("speed").value)));
    byId("zoom-in").addEventListener("click", () => this.zoom(1.4));
    byId("zoom-out").addEventListener("click", () => this.zoom(1 / 1.4));
    byId("zoom-reset").addEventListener("click", () => this.reset());
    byId("follow").addEventListener("click", () => this.follow());
    new Gestures(byId("live"), {
      pan: (dx, dy) => { this.stopFollowing(); this.view.panBy(dx, dy); this.changed(); },
      zoom: (px, py, factor) => { this.view.zoomAt(px, py, factor); this.changed(); },
      hover: (px, py) => this.hover(this.map.clientAt(px, py)),
      leave: () => this.hover(null),
      tap: (px, py) => {
        const client = this.map.clientAt(px, py, 22);
        this.select(client === this.selected ? null : client);
      },
    });
  }

  // --- what the reader does ----------------------------------------------------------------------------------

  jump(share) {
    this.player.seek(this.player.time + share * this.player.end);
  }

  /** Jump to the middle of the next contact (1) or the previous one (-1). */
  contact(direction) {
    const { history, player } = this;
    const { middles } = history;
    const to = direction > 0
      ? middles[countUpTo(middles, player.time + 1e-3)]
      : middles[countUpTo(middles, player.time - 1e-3) - 1];
    player.pause();
    if (to !== undefined) player.seek(to);
  }

  zoom(factor) {
    this.view.zoomAt(this.view.width / 2, this.view.height / 2, factor);
    this.changed();
  }

  reset() {
    this.stopFollowing();
    this.view.reset();
    this.changed();
  }

  /** Keep the vehicle in the centre; of several, the next one at each call, and none after the last. */
  follow() {
    this.following = this.following + 1 < this.history.vehicles ? this.following + 1 : -1;
    if (this.following >= 0 && this.view.zoom < 1.5) this.zoom(3 / this.view.zoom);
    this.changed();
  }

  stopFollowing() {
    this.following = -1;
  }

  select(client) {
    this.selected = client;
    this.changed();
  }

  hover(client) {
    if (client === this.hovered) return;
    this.hovered = client;
    byId("live").style.cursor = client === null ? "" : "pointer";
    this.changed();
  }

  deselect() {
    this.help.close();
    this.select(null);
  }

  // --- drawing -----------------------------------------------------------------------------------------------

  changed() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame((now) => this.frame(now));
  }

  frame(now) {
    this.waiting = false;
    const { player } = this;
    if (player.playing) player.advance(Math.min((now - (this.last ?? now)) / 1000, 0.25));
    this.last = player.playing ? now : undefined;
    const began = performance.now();
    this.draw(now);
    this.drawTimes.push(performance.now() - began);
    if (this.drawTimes.length > 300) this.drawTimes.shift();
    this.frames++;
    if (player.playing) this.changed();
  }

  draw(now) {
    const { history, player, view } = this;
    history.moveTo(player.time);
    const followed = this.following;
    if (followed >= 0 && !Number.isNaN(history.x[followed])) view.centreOn(history.x[followed], history.y[followed]);
    const glow = player.playing && !still.matches ? GLOW_S * player.speed : 0;
    this.map.draw(player.time, { glow, selected: this.selected, hovered: this.hovered });
    if (player.playing && now - this.written < WRITE_MS) return;
    this.written = now;
    for (const chart of this.charts) chart.draw(player.time);
    this.card.show(this.hovered ?? this.selected, this.selected, player.time);
    this.write();
  }

  /** Update all texts that depend on the time. */
  write() {
    const { history, player } = this;
    const time = player.time;
    const underWay = history.contactsNear(time, 0).filter((i) => history.contactEnd(i) > time);
    const begun = history.contactsUntil(time) + underWay.length;
    const clock = clockText(time);
    setText("clock", clock);
    setText("visit", `contact ${numberText(begun, 9)} of ${numberText(history.contacts, 9)}`);
    setText("now", this.doing(0, time));
    setText("personal-now", percentText(lastValue(this.lines.personal, time)));
    setText("token-now", percentText(lastValue(this.lines.token, time)));
    setText("alone-now", percentText(lastValue(this.lines.alone, time)));
    setText("down-now", bytesText(lastValue(this.lines.down, time)));
    setText("up-now", bytesText(lastValue(this.lines.up, time)));
    const slider = byId("slider");
    slider.value = String(time);
    slider.style.setProperty("--done", `${history.end > 0 ? (100 * time) / history.end : 0}%`);
    slider.setAttribute("aria-valuetext", `${clock} of ${clockText(history.end)}`);
    byId("speed").value = String(player.speed);
    const play = byId("play");
    play.classList.toggle("is-playing", player.playing);
    play.setAttribute("aria-label", player.playing ? "Pause" : "Play");
    byId("follow").setAttribute("aria-pressed", String(this.following >= 0));
    if (!player.playing) setText("said", `${clock}, contact ${begun}, ${this.doing(0, time)}`);
  }

  /** What a vehicle is doing, as text. */
  doing(vehicle, time) {
    const { history } = this;
    if (history.vehicles > 1) {
      const busy = new Set(history.contactsNear(time, 0).map((i) => history.arrays.contact_vehicle[i])).size;
      return `${busy} of ${history.vehicles} vehicles in contact`;
    }
    const { last, next } = history.around(vehicle, time);
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

  recolour() {
    this.map.recolour();
    this.resize();
  }

  resize() {
    const box = byId("map").getBoundingClientRect();
    if (box.width < 1 || box.height < 1) return;
    this.map.resize(box.width, box.height);
    for (const chart of this.charts) chart.resize(this.map.colour);
    this.changed();
  }
}

/** The overlay with all keys. */
class Help {
  constructor(table) {
    this.dialog = byId("help");
    for (const [, shown, meaning] of table) {
      const key = element("kbd", { textContent: shown });
      byId("keys").append(element("dt", {}, key), element("dd", { textContent: meaning }));
    }
    listenToKeys(table);
    byId("help-open").addEventListener("click", () => this.toggle());
    byId("help-close").addEventListener("click", () => this.close());
    this.dialog.addEventListener("click", (event) => { if (event.target === this.dialog) this.close(); });
  }

  toggle() {
    if (this.dialog.open) this.close();
    else this.dialog.showModal();
  }

  close() {
    if (this.dialog.open) this.dialog.close();
  }
}

/** Set a text only if it differs: otherwise the browser would redo the layout. */
function setText(id, text) {
  const target = byId(id);
  if (target.textContent !== text) target.textContent = text;
}

async function main() {
  const content = pageContent();
  const arrays = await readArrays(content.arrays, byId("arrays").textContent);
  window.replay = new Replay(content, arrays); // accessible from the browser's console and from tests
  document.body.classList.add("is-ready");
}

main().catch((error) => {
  byId("wrong").textContent = `This page cannot be displayed: ${error.message}. It needs a browser from 2023 or later.`;
  byId("wrong").hidden = false;
  throw error;
});
