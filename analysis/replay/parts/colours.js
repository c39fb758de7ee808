// Colours distinguishable with any colour vision: viridis for amounts, from red over white to blue for differences.

const VIRIDIS = [
  [68, 1, 84], [72, 36, 117], [65, 68, 135], [53, 95, 141], [42, 120, 142], [33, 145, 140],
  [34, 168, 132], [68, 191, 112], [122, 209, 81], [189, 223, 38], [253, 231, 37],
];

const DIVERGING = [
  [103, 0, 31], [178, 24, 43], [214, 96, 77], [244, 165, 130], [253, 219, 199], [247, 247, 247],
  [209, 229, 240], [146, 197, 222], [67, 147, 195], [33, 102, 172], [5, 48, 97],
];

/** The colour [r, g, b] of a share between 0 and 1. */
function scaleColour(share, colours = VIRIDIS) {
  const position = Math.min(Math.max(share, 0), 1) * (colours.length - 1);
  const low = Math.min(Math.floor(position), colours.length - 2);
  return colours[low].map((part, i) => Math.round(part + (position - low) * (colours[low + 1][i] - part)));
}

function rgb(colour) {
  return `rgb(${colour.join(" ")})`;
}

/** Black or white, whichever is legible on a colour. */
function inkOn(colour) {
  const [r, g, b] = colour.map((part) => (part / 255) ** 2.2);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#101418" : "#ffffff";
}

/** Paint the colour scale from left to right. */
function paintScale(canvas, colours = VIRIDIS) {
  const context = canvas.getContext("2d");
  const shades = context.createLinearGradient(0, 0, canvas.width, 0);
  colours.forEach((colour, i) => shades.addColorStop(i / (colours.length - 1), rgb(colour)));
  context.fillStyle = shades;
  context.fillRect(0, 0, canvas.width, canvas.height);
}
