// Which part of the map is shown, and how large.

class View {
  constructor(size) {
    this.size = size; // of the terrain, metres
    this.version = 0; // counts changes, for whoever keeps a drawing
    this.width = 1;
    this.height = 1;
    this.reset();
  }

  /** How large what has no size on the map is drawn: smaller in a small window. */
  get figureScale() {
    return Math.min(Math.max(Math.min(this.width, this.height) / 520, 0.7), 1);
  }

  /** Pixels per metre at which all of the terrain is shown. */
  get whole() {
    const [width, height] = this.size;
    const margin = 22 * this.figureScale;
    const room = (pixels) => Math.max(pixels - 2 * margin, 20);
    return Math.min(room(this.width) / width, room(this.height) / height);
  }

  get zoom() {
    return this.scale / this.whole;
  }

  reset() {
    this.scale = this.whole;
    this.x = this.size[0] / 2; // what is in the middle
    this.y = this.size[1] / 2;
    this.version++;
  }

  resize(width, height) {
    const zoom = this.zoom;
    this.width = width;
    this.height = height;
    this.scale = this.whole * zoom;
    this.version++;
  }

  zoomAt(px, py, factor) {
    const [x, y] = this.toMap(px, py);
    this.scale = Math.min(Math.max(this.scale * factor, 0.5 * this.whole), 100 * this.whole);
    this.x = x - (px - this.width / 2) / this.scale;
    this.y = y + (py - this.height / 2) / this.scale;
    this.keepInSight();
  }

  panBy(dx, dy) {
    this.lookAt(this.x - dx / this.scale, this.y + dy / this.scale);
  }

  lookAt(x, y) {
    this.x = x;
    this.y = y;
    this.keepInSight();
  }

  keepInSight() {
    this.x = Math.min(Math.max(this.x, 0), this.size[0]);
    this.y = Math.min(Math.max(this.y, 0), this.size[1]);
    this.version++;
  }

  screenX(x) {
    return this.width / 2 + (x - this.x) * this.scale;
  }

  screenY(y) {
    return this.height / 2 - (y - this.y) * this.scale;
  }

  toMap(px, py) {
    return [this.x + (px - this.width / 2) / this.scale, this.y - (py - this.height / 2) / this.scale];
  }
}
