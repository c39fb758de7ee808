// Keyboard shortcuts, and their list in the help.

/** Rows of [keys, label, meaning, action]. */
function keyTable({ player, map, help, theme }) {
  return [
    [[" ", "k"], "Space", "play or pause", () => player.toggle()],
    [["ArrowRight"], "→", "forward by 1 % (with Shift 10 %)", (event) => map.jump(event.shiftKey ? 0.1 : 0.01)],
    [["ArrowLeft"], "←", "back by 1 % (with Shift 10 %)", (event) => map.jump(event.shiftKey ? -0.1 : -0.01)],
    [["."], ".", "next contact", () => map.contact(1)],
    [[","], ",", "previous contact", () => map.contact(-1)],
    [["Home"], "Home", "go to the start", () => player.seek(0)],
    [["End"], "End", "go to the end", () => player.seek(player.end)],
    [["ArrowUp", "]"], "↑", "faster", () => player.shift(1)],
    [["ArrowDown", "["], "↓", "slower", () => player.shift(-1)],
    [["+", "="], "+", "zoom in", () => map.zoom(1.4)],
    [["-", "_"], "−", "zoom out", () => map.zoom(1 / 1.4)],
    [["0"], "0", "show the full map", () => map.reset()],
    [["f"], "F", "follow the vehicle, or the next of several", () => map.follow()],
    [["p"], "P", "save a picture of what is shown", () => map.picture()],
    [["t"], "T", "light or dark colours", () => theme.toggle()],
    [["?", "h"], "?", "this help", () => help.toggle()],
    [["Escape"], "Esc", "close this help, deselect the client", () => map.deselect()],
  ];
}

/** Handle keys, except while the focus is on a control that uses them itself. */
function listenToKeys(table) {
  const actions = new Map(table.flatMap(([keys, , , action]) => keys.map((key) => [key, action])));
  document.addEventListener("keydown", (event) => {
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const action = actions.get(key);
    if (!action || event.ctrlKey || event.metaKey || event.altKey || usesKey(event.target, key)) return;
    event.preventDefault();
    action(event);
  });
}

function usesKey(target, key) {
  if (target.closest("dialog")) return !["?", "h", "Escape"].includes(key);
  if (target.matches("input[type=number], select")) return key !== "Escape";
  return target.matches("button, summary, a") && key === " ";
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
