// Mouse, wheel and fingers on the map: pan, zoom, point at and tap clients.

const TAP_PX = 6; // a longer movement is a drag

class Gestures {
  /** handlers: pan(dx, dy), zoom(px, py, factor), hover(px, py), leave(), tap(px, py). */
  constructor(target, handlers) {
    this.target = target;
    this.handlers = handlers;
    this.pointers = new Map();
    this.moved = 0;
    target.addEventListener("pointerdown", (event) => this.down(event));
    target.addEventListener("pointermove", (event) => this.move(event));
    target.addEventListener("pointerup", (event) => this.up(event));
    target.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId));
    target.addEventListener("pointerleave", () => handlers.leave());
    target.addEventListener("dblclick", (event) => handlers.zoom(...this.position(event), 2));
    target.addEventListener("wheel", (event) => {
      event.preventDefault();
      const pixels = event.deltaY * (event.deltaMode === 1 ? 16 : 1);
      handlers.zoom(...this.position(event), Math.exp(-Math.min(Math.max(pixels, -120), 120) / 400));
    }, { passive: false });
  }

  /** Where an event is, in pixels from the target's corner. */
  position(event) {
    const box = this.target.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  down(event) {
    if (event.button !== 0) return;
    this.target.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, this.position(event));
    this.moved = this.pointers.size > 1 ? Infinity : 0; // two fingers never tap
  }

  move(event) {
    const [x, y] = this.position(event);
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      this.handlers.hover(x, y);
      return;
    }
    this.moved += Math.hypot(x - before[0], y - before[1]);
    if (this.pointers.size === 1) {
      if (this.moved > TAP_PX) this.handlers.pan(x - before[0], y - before[1]);
    } else {
      this.pinch(event.pointerId, before, [x, y]);
    }
    this.pointers.set(event.pointerId, [x, y]);
  }

  /** One of two fingers has moved: zoom about the other by the change of their distance. */
  pinch(id, before, after) {
    const other = [...this.pointers].find(([key]) => key !== id)[1];
    const apart = (point) => Math.max(1, Math.hypot(point[0] - other[0], point[1] - other[1]));
    this.handlers.zoom(...other, apart(after) / apart(before));
  }

  up(event) {
    const known = this.pointers.delete(event.pointerId);
    if (known && this.moved <= TAP_PX) this.handlers.tap(...this.position(event));
  }
}
