// Numbers of the client under the pointer, or of the selected one, as of the last evaluation.

class ClientCard {
  constructor(history, choose) {
    this.history = history;
    this.shown = "";
    this.input = byId("client");
    this.input.max = String(history.clients - 1);
    this.input.addEventListener("input", () => {
      const number = this.input.valueAsNumber;
      choose(Number.isInteger(number) && number >= 0 && number < history.clients ? number : null);
    });
    const names = ["accuracy", "visits", "participations", "steps", "received", "sent"];
    this.rows = Object.fromEntries(names.map((name) => [name, byId(`client-${name}`)]));
  }

  /** Show a client (null for none) at a time. */
  show(client, selected, time) {
    if (document.activeElement !== this.input) this.input.value = selected === null ? "" : String(selected);
    const evaluation = this.history.evaluationAt(time);
    const here = client !== null && !Number.isNaN(this.history.x[this.history.vehicles + client]);
    const now = `${client} ${evaluation} ${here}`;
    if (now === this.shown) return;
    this.shown = now;
    byId("client-card").classList.toggle("is-empty", client === null);
    byId("client-title").textContent = client === null ? "Client" : `Client ${client}`;
    if (client === null) {
      byId("client-note").textContent = "Point at a client on the map, tap it, or type its number.";
      return;
    }
    const numbers = this.history.numbers(client, evaluation);
    this.rows.accuracy.textContent = percentText(numbers.accuracy);
    this.rows.visits.textContent = numberText(numbers.visits);
    this.rows.participations.textContent = numberText(numbers.participations);
    this.rows.steps.textContent = numberText(numbers.gradientSteps, 9);
    this.rows.received.textContent = Number.isNaN(numbers.bytesDown) ? "–" : bytesText(numbers.bytesDown);
    this.rows.sent.textContent = Number.isNaN(numbers.bytesUp) ? "–" : bytesText(numbers.bytesUp);
    const { evaluation_tick: ticks, evaluation_contact: contacts } = this.history.arrays;
    const when = evaluation < 0 ? "not evaluated yet"
      : `evaluated after contact ${contacts[evaluation]}, ${clockText(ticks[evaluation] * this.history.content.tick_s)}`;
    byId("client-note").textContent = here ? when : `${when}; absent now`;
  }
}
