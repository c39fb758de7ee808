// The replay page of one run, or of two side by side: connects the parts, draws a frame whenever something has changed.

const WRITE_MS = 60; // between updates of texts and curves while playing: nobody reads faster

class Replay {
  constructor(content, arrays) {
    this.content = content;
    this.selected = null;
    this.hovered = null;
    this.waiting = false; // for the next frame
    this.drawTimes = []; // milliseconds of the last frames, for benchmarks
    this.frames = 0;
    const handlers = {
      changed: () => this.changed(),
      select: (client) => this.select(client === this.selected ? null : client),
      hover: (client) => this.hover(client),
    };
    const several = content.runs.length > 1;
    this.stages = content.runs.map((run, number) => new Stage(run, arrays[number], { number, several, handlers }));
    byId("stages").append(...this.stages.map((stage) => stage.root));
    document.body.classList.toggle("has-two", several);
    this.player = new Player(Math.max(...this.histories.map((history) => history.end)), () => this.changed());
    if (this.sameSize) for (const stage of this.stages) stage.together = this.stages;
    const range = accuracyRange(this.histories);
    for (const { map } of this.stages) map.marks.range = range;
    this.card = new ClientCard(this.histories, (client) => this.select(client));
    const cards = (several ? cardsOfTwo : cardsOfOne)(this.histories.map(curvesOf));
    const seek = (time) => this.player.seek(time);
    this.cards = cards.map((card) => new CurveCard(byId("curves"), card, this.player.end, seek));
    this.describe(range);
    this.connect();
    this.theme = new Theme(byId("theme"), () => this.recolour());
    const help = { toggle: () => this.help.toggle() };
    this.help = new Help(keyTable({ player: this.player, map: this, help, theme: this.theme }));
    const observer = new ResizeObserver(() => this.resize());
    for (const stage of this.stages) observer.observe(stage.part("map"));
    for (const { chart } of this.cards) observer.observe(chart.canvas);
    this.resize();
    this.goToHash();
    addEventListener("hashchange", () => this.goToHash());
  }

  get histories() {
    return this.stages.map((stage) => stage.history);
  }

  get sameSize() {
    const [first, ...others] = this.content.runs.map((run) => run.size_m.join());
    return others.every((other) => other === first);
  }

  // --- set up once -------------------------------------------------------------------------------------------

  describe([low, high]) {
    const { content } = this;
    byId("name").textContent = content.title;
    byId("facts").append(...content.facts.map((fact) => element("li", { textContent: fact })));
    byId("ending").textContent = content.ending;
    byId("ending").hidden = !content.ending;
    setText(byId("scale-low"), percentText(low, 0));
    setText(byId("scale-high"), percentText(high, 0));
    paintScale(byId("scale"));
    describeKinds(content.runs);
    describeGroups(this.histories);
    describeDifferences(content.differences);
    const error = numberText(Math.max(...content.runs.map((run) => run.exact_to_m), 0.01), 2);
    byId("exact").textContent = content.runs.some((run) => run.schematic)
      ? "The contact list has no positions: the map is a diagram, with vehicles in the middle and clients round them."
      : `Positions are within ${error} m of those in the run.`;
    for (const speed of SPEEDS) {
      byId("speed").append(element("option", { value: String(speed), textContent: `${numberText(speed, 9)}×` }));
    }
    setText(byId("total"), clockText(this.player.end));
    const slider = byId("slider");
    slider.max = String(this.player.end || 1);
    slider.step = "any";
  }

  connect() {
    const { player } = this;
    byId("play").addEventListener("click", () => player.toggle());
    byId("previous").addEventListener("click", () => this.contact(-1));
    byId("next").addEventListener("click", () => this.contact(1));
    byId("slider").addEventListener("input", () => player.seek(byId("slider").valueAsNumber));
    byId("speed").addEventListener("change", () => player.setSpeed(Number(byId("speed").value)));
    byId("picture").addEventListener("click", () => this.picture());
  }

  /** Go to the time and the client that the address asks for: #t=1200&client=5. */
  goToHash() {
    const asked = new URLSearchParams(location.hash.slice(1));
    const time = Number(asked.get("t"));
    const client = asked.get("client") ?? this.content.client;
    this.player.seek(Number.isFinite(time) ? time : 0);
    if (client === null || client === "") return;
    const number = Number(client);
    this.select(this.card.has(number) ? number : null);
    if (!this.card.has(number)) this.card.refuse(client);
  }

  // --- what the reader does ----------------------------------------------------------------------------------

  jump(share) {
    this.player.seek(this.player.time + share * this.player.end);
  }

  /** Jump to the middle of the next contact (1) or the previous one (-1). */
  contact(direction) {
    const { player } = this;
    const found = this.histories.map(({ middles }) => (direction > 0
      ? middles[countUpTo(middles, player.time + 1e-3)]
      : middles[countUpTo(middles, player.time - 1e-3) - 1])).filter((time) => time !== undefined);
    player.pause();
    if (found.length) player.seek(direction > 0 ? Math.min(...found) : Math.max(...found));
  }

  /** The stages that zoom and pan by themselves: one of those that do so together. */
  get leaders() {
    return this.stages.filter((stage) => stage.together[0] === stage);
  }

  zoom(factor) {
    for (const stage of this.leaders) stage.zoom(factor);
  }

  reset() {
    for (const stage of this.leaders) stage.reset();
  }

  follow() {
    for (const stage of this.stages) stage.follow();
  }

  select(client) {
    this.selected = client;
    this.card.accept();
    this.changed();
  }

  hover(client) {
    if (client === this.hovered) return;
    this.hovered = client;
    for (const stage of this.stages) stage.part("live").style.cursor = client === null ? "" : "pointer";
    this.changed();
  }

  deselect() {
    this.help.close();
    this.select(null);
  }

  picture() {
    savePicture(this);
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
    const { player, selected, hovered } = this;
    const speed = player.sought ? 0 : player.speed;
    for (const stage of this.stages) stage.draw(player.time, { speed, selected, hovered });
    if (player.playing && now - this.written < WRITE_MS) return;
    this.written = now;
    for (const { chart } of this.cards) chart.draw(player.time);
    this.card.show(hovered ?? selected, selected, player.time);
    this.write();
  }

  /** Update all texts that depend on the time. */
  write() {
    const { player, stages } = this;
    const time = player.time;
    for (const stage of stages) stage.write(time);
    for (const card of this.cards) card.write(time);
    const clock = clockText(time);
    const slider = byId("slider");
    slider.value = String(time);
    slider.style.setProperty("--done", `${player.end > 0 ? (100 * time) / player.end : 0}%`);
    slider.setAttribute("aria-valuetext", `${clock} of ${clockText(player.end)}`);
    byId("speed").value = String(player.speed);
    const play = byId("play");
    play.classList.toggle("is-playing", player.playing);
    play.setAttribute("aria-label", player.playing ? "Pause" : "Play");
    if (!player.playing) setText(byId("said"), [clock, ...stages.map((stage) => stage.inWords(time))].join(", "));
  }

  recolour() {
    for (const { map } of this.stages) map.recolour();
    this.resize();
  }

  resize() {
    for (const stage of this.stages) stage.resize();
    for (const { chart } of this.cards) chart.resize(this.stages[0].map.colour);
    this.changed();
  }
}

async function main() {
  const content = pageContent();
  const packed = byId("arrays").textContent.trim().split(/\s+/);
  const arrays = await Promise.all(content.runs.map((run, i) => readArrays(run.arrays, packed[i])));
  window.replay = new Replay(content, arrays); // accessible from the browser's console and from tests
  document.body.classList.add("is-ready");
}

main().catch((error) => {
  byId("wrong").textContent = `This page cannot be displayed: ${error.message}. It needs a browser from 2023 or later.`;
  byId("wrong").hidden = false;
  throw error;
});
