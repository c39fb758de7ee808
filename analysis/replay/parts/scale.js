// The colour scale of a map: wider than noise, and of differences with 0 in the middle.

const LEAST_POINTS = 5; // from the middle of a scale of shares to its ends
const LEAST_WIDTHS = 2; // the same, in half-widths of an interval

class ColourScale {
  /** cells: { mean, width } of all cells; result: { share, difference }. */
  constructor(cells, { share, difference }) {
    const known = (values) => values.filter(Number.isFinite).sort((a, b) => a - b);
    const means = known(cells.map((cell) => cell.mean));
    const widths = known(cells.map((cell) => cell.width));
    const [lowest, highest] = [means[0], means[means.length - 1]];
    const least = Math.max(share ? LEAST_POINTS : 0, widths.length ? LEAST_WIDTHS * median(widths) : 0);
    this.colours = difference ? DIVERGING : VIRIDIS;
    if (difference) {
      this.high = Math.max(-lowest, highest, least);
      this.low = -this.high;
      return;
    }
    const [bottom, top] = [lowest >= 0 ? 0 : -Infinity, share ? 100 : Infinity];
    const middle = (lowest + highest) / 2;
    const half = Math.max((highest - lowest) / 2, least);
    this.low = Math.max(bottom, Math.min(middle, top - half) - half);
    this.high = Math.min(top, Math.max(middle, bottom + half) + half);
  }

  colour(value) {
    return scaleColour(this.high > this.low ? (value - this.low) / (this.high - this.low) : 0.5, this.colours);
  }
}

/** The middle of sorted values. */
function median(values) {
  const middle = values.length / 2;
  return (values[Math.ceil(middle) - 1] + values[Math.floor(middle)]) / 2;
}
