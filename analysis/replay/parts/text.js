// Numbers as text, and elements. Text is only ever set as textContent, so that no name can become markup.

/** Simulated time, such as 1:08:36, or 2 d 03:04:05 from one day on. */
function clockText(seconds) {
  const whole = Math.max(0, Math.floor(seconds + 1e-6));
  const two = (number) => String(number).padStart(2, "0");
  const days = Math.floor(whole / 86400);
  const hours = Math.floor(whole / 3600) % 24;
  const rest = `${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  return days ? `${days} d ${two(hours)}:${rest}` : `${hours}:${rest}`;
}

/** Bytes in decimal units, such as 6.47 MB. */
function bytesText(bytes) {
  if (!Number.isFinite(bytes)) return "–";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  const power = bytes < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3 + 1e-9));
  return `${numberText(bytes / 1000 ** power, 3)} ${units[power]}`;
}

/** A distance, such as 85 m or 2.1 km. */
function metresText(metres) {
  return metres >= 1000 ? `${numberText(metres / 1000, 3)} km` : `${numberText(metres, 3)} m`;
}

/** A share in per cent, such as 87.0 %; a dash if unknown. */
function percentText(share, digits = 1) {
  return Number.isFinite(share) ? `${(100 * share).toFixed(digits)} %` : "–";
}

/** A number with the given significant digits, separated thousands and no trailing zeros. */
function numberText(value, digits = 4) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(Math.min(2, digits - 1));
  const whole = size < 1 ? 0 : Math.floor(Math.log10(size)) + 1;
  return value.toLocaleString("en-GB", { maximumFractionDigits: Math.max(0, digits - whole) });
}

/** A round number at or above a value: 1, 2 or 5 times a power of ten. */
function roundAbove(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((round) => round >= value * (1 - 1e-9));
}

function byId(id) {
  return document.getElementById(id);
}

/** Set a text only if it differs: otherwise the browser would redo the layout. */
function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/** A new element with properties and children: texts or elements. */
function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** A new element of a drawing. */
function svgElement(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** The JSON embedded in the page. */
function pageContent() {
  return JSON.parse(byId("content").textContent);
}
