// The visible part of the map and its scale.

class View {
  constructor(size) {
    this.size = size; // of the terrain, metres
    this.version = 0; // counts changes, for cached drawings
    this.width = 1;
    this.height = 1;
    this.reset();
  }

  /** Size of symbols, which have no extent on the map: smaller in a small window. */
  get figureScale() {
    return Math.min(Math.max(Math.min(this.width, this.height) / 520, 0.7), 1);
  }

  /** Pixels per metre at which the full terrain is visible. */
  get fullScale() {
    const [width, height] = this.size;
    const margin = 22 * this.figureScale;
    const room = (pixels) => Math.max(pixels - 2 * margin, 20);
    return Math.min(room(this.width) / width, room(this.height) / height);
  }

  get zoom() {
    return this.scale / this.fullScale;
  }

  reset() {
    this.scale = this.fullScale;
    this.x = this.size[0] / 2; // the centre of the view
    this.y = this.size[1] / 2;
    this.version++;
  }

  resize(width, height) {
    const zoom = this.zoom;
    this.width = width;
    this.height = height;
    this.scale = this.fullScale * zoom;
    this.version++;
  }

  zoomAt(px, py, factor) {
    const [x, y] = this.toMap(px, py);
    this.scale = Math.min(Math.max(this.scale * factor, 0.5 * this.fullScale), 100 * this.fullScale);
    this.x = x - (px - this.width / 2) / this.scale;
    this.y = y + (py - this.height / 2) / this.scale;
    this.keepOnMap();
  }

  panBy(dx, dy) {
    this.centreOn(this.x - dx / this.scale, this.y + dy / this.scale);
  }

  centreOn(x, y) {
    this.x = x;
    this.y = y;
    this.keepOnMap();
  }

  keepOnMap() {
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
