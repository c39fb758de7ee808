// Light or dark: as the system says, until the reader says otherwise.

class Theme {
  constructor(button, changed = () => {}) {
    this.changed = changed;
    this.system = matchMedia("(prefers-color-scheme: dark)");
    this.system.addEventListener("change", () => this.show());
    button.addEventListener("click", () => this.toggle());
    this.button = button;
    this.show();
  }

  get dark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : this.system.matches;
  }

  toggle() {
    document.documentElement.dataset.theme = this.dark ? "light" : "dark";
    this.show();
  }

  show() {
    this.button.setAttribute("aria-label", this.dark ? "Light colours" : "Dark colours");
    this.button.title = `${this.button.getAttribute("aria-label")} (T)`;
    this.button.classList.toggle("is-dark", this.dark);
    this.changed();
  }
}

/** A colour of the style sheet, by the name of its property. */
function palette() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}
