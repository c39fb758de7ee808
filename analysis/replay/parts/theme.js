// Light or dark colours: those of the system until the reader chooses.

const systemDark = matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = systemDark.matches ? "dark" : "light"; // before anything is drawn

class Theme {
  constructor(button, changed = () => {}) {
    Object.assign(this, { button, changed });
    systemDark.addEventListener("change", () => this.show(systemDark.matches));
    button.addEventListener("click", () => this.toggle());
    this.show(this.dark);
  }

  get dark() {
    return document.documentElement.dataset.theme === "dark";
  }

  toggle() {
    this.show(!this.dark);
  }

  show(dark) {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    this.button.setAttribute("aria-label", dark ? "Light colours" : "Dark colours");
    this.button.title = `${this.button.getAttribute("aria-label")} (T)`;
    this.button.classList.toggle("is-dark", dark);
    this.changed();
  }
}

/** Call a function when the key T is pressed, except where it is typed. */
function onThemeKey(toggle) {
  document.addEventListener("keydown", (event) => {
    const typed = event.target.matches("input, select, textarea");
    if (event.key === "t" && !event.ctrlKey && !event.metaKey && !event.altKey && !typed) toggle();
  });
}

/** A function that returns a colour of the style sheet by the name of its property. */
function palette() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}
