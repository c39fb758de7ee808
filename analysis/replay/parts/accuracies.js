// The accuracy of every client's personal model: as last evaluated, or as it was after a later contact of its own.

class Accuracies {
  constructor(history) {
    this.history = history;
    this.steps = new Uint16Array(history.clients).fill(UNKNOWN);
    this.since = new Int32Array(history.clients).fill(-1); // the contact after which it was; -1: never evaluated
    this.evaluation = -1; // the last evaluation taken into account
    this.contacts = 0; // and the number of contacts
  }

  /** Bring all accuracies to a time. */
  moveTo(time) {
    const { history } = this;
    const evaluation = history.evaluationAt(time);
    const contacts = history.contactsUntil(time);
    if (evaluation !== this.evaluation || contacts < this.contacts) this.evaluate(evaluation);
    for (; this.contacts < contacts; this.contacts++) this.takeFrom(this.contacts);
  }

  evaluate(evaluation) {
    const { arrays, evaluations } = this.history;
    const contact = evaluation < 0 ? -1 : arrays.evaluation_contact[evaluation];
    for (let client = 0; client < this.steps.length; client++) {
      this.steps[client] = evaluation < 0 ? UNKNOWN : arrays.accuracy[client * evaluations + evaluation];
    }
    this.since.fill(contact);
    this.evaluation = evaluation;
    this.contacts = Math.max(0, contact);
  }

  /** Take over what was measured after a contact, counted from 0. */
  takeFrom(contact) {
    const { arrays, firstId } = this.history;
    for (let i = firstId[contact]; i < firstId[contact + 1]; i++) {
      if (arrays.contact_accuracy[i] === UNKNOWN) continue;
      this.steps[arrays.contact_ids[i]] = arrays.contact_accuracy[i];
      this.since[arrays.contact_ids[i]] = contact + 1;
    }
  }

  /** The accuracy of a client; nan if unknown. */
  of(client) {
    return this.steps[client] === UNKNOWN ? NaN : this.steps[client] / this.history.content.accuracy_steps;
  }
}

/** Lowest and highest accuracy of any client in these runs, rounded outwards to 5 %. */
function accuracyRange(histories) {
  let [low, high] = [Infinity, -Infinity];
  for (const { arrays, content } of histories) {
    for (const values of [arrays.accuracy, arrays.contact_accuracy]) {
      for (const steps of values) {
        if (steps === UNKNOWN) continue;
        low = Math.min(low, steps / content.accuracy_steps);
        high = Math.max(high, steps / content.accuracy_steps);
      }
    }
  }
  if (high < low) return [0, 1];
  const [from, to] = [Math.floor(low * 20) / 20, Math.ceil(high * 20) / 20];
  return to > from ? [from, to] : [Math.max(0, from - 0.05), Math.min(1, to + 0.05)];
}
