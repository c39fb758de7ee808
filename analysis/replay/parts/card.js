// Numbers of the client under the pointer, or of the selected one, in every run on the page.

class ClientCard {
  constructor(histories, choose) {
    this.histories = histories;
    this.shown = "";
    this.clients = Math.max(...histories.map((history) => history.clients));
    this.input = byId("client");
    this.input.max = String(this.clients - 1);
    this.input.addEventListener("input", () => this.typed(choose));
    const names = ["accuracy", "visits", "exchanges", "steps", "received", "sent"];
    this.rows = Object.fromEntries(names.map((name) => [name, byId(`client-${name}`)]));
  }

  has(client) {
    return Number.isInteger(client) && client >= 0 && client < this.clients;
  }

  typed(choose) {
    const client = this.input.value === "" ? null : this.input.valueAsNumber;
    choose(this.has(client) ? client : null);
    if (client !== null && !this.has(client)) this.refuse(this.input.value);
  }

  /** Take back what `refuse` said. */
  accept() {
    this.input.removeAttribute("aria-invalid");
    setText(byId("client-wrong"), "");
  }

  /** Say that there is no such client. */
  refuse(asked) {
    this.input.setAttribute("aria-invalid", "true");
    setText(byId("client-wrong"), `There is no client ${asked}: ${this.clients === 1 ? "the only one is 0" : `they are 0 to ${this.clients - 1}`}.`);
  }

  /** Show a client (null for none) at a time. */
  show(client, selected, time) {
    if (document.activeElement !== this.input) this.input.value = selected === null ? "" : String(selected);
    const times = this.histories.map((history) => Math.min(time, history.end));
    const here = this.histories.map((history) => history.isHere(client));
    const now = [client, here, ...this.histories.map((h, i) => [h.contactsUntil(times[i]), h.evaluationAt(times[i])])].join();
    if (now === this.shown) return;
    this.shown = now;
    byId("client-card").classList.toggle("is-empty", client === null);
    const group = client === null ? "" : this.histories[0].groups.nameOf(client);
    setText(byId("client-title"), client === null ? "Client" : `Client ${client}${group && `, ${group}`}`);
    setText(byId("client-note"), client === null ? "Point at a client on the map, tap it, or type its number."
      : this.histories.map((history, i) => this.note(history, client, times[i], here[i])).join(" | "));
    if (client !== null) this.write(this.histories.map((history, i) => (client < history.clients ? history.numbers(client, times[i]) : null)));
  }

  write(all) {
    const set = (row, text) => setText(row, all.map((numbers) => (numbers ? text(numbers) : "–")).join(" | "));
    set(this.rows.accuracy, ({ accuracy }) => percentText(accuracy));
    set(this.rows.visits, ({ visits }) => numberText(visits));
    set(this.rows.exchanges, ({ exchanges }) => numberText(exchanges));
    set(this.rows.steps, ({ gradientSteps }) => numberText(gradientSteps, 9));
    set(this.rows.received, ({ bytesDown }) => bytesText(bytesDown));
    set(this.rows.sent, ({ bytesUp }) => bytesText(bytesUp));
  }

  /** When the numbers were measured. */
  note(history, client, time, here) {
    if (client >= history.clients) return "not in this run";
    const evaluation = history.evaluationAt(time);
    const since = history.accuracies.since[client];
    if (evaluation < 0 && since < 0) return "not evaluated yet";
    const contact = since > 0 ? `after contact ${since}` : "before the first contact";
    const others = evaluation < 0 ? "" : `; steps and bytes at ${clockText(history.arrays.evaluation_tick[evaluation] * history.content.tick_s)}`;
    return `accuracy ${contact}${others}${here ? "" : "; absent now"}`;
  }
}
