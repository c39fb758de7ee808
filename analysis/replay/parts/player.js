// Playback: the current simulated time and its speed.

const SPEEDS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18000, 36000];
const FULL_RUN_S = 75; // real seconds that a run takes at most at the initial speed

class Player {
  constructor(end, changed) {
    this.end = end;
    this.changed = changed; // called after every change
    this.time = 0;
    this.playing = false;
    this.sought = true; // whether the time was chosen instead of reached by playing
    this.speed = SPEEDS.find((speed) => end / speed <= FULL_RUN_S) ?? SPEEDS.at(-1);
  }

  seek(time) {
    this.time = Math.min(Math.max(time, 0), this.end);
    this.sought = true;
    this.changed();
  }

  toggle() {
    this.playing = !this.playing;
    if (this.playing && this.time >= this.end) this.time = 0;
    this.changed();
  }

  pause() {
    if (this.playing) this.toggle();
  }

  setSpeed(speed) {
    this.speed = speed;
    this.changed();
  }

  /** The next speed up (1) or down (-1). */
  shift(direction) {
    const index = SPEEDS.indexOf(this.speed) + direction;
    this.setSpeed(SPEEDS[Math.min(Math.max(index, 0), SPEEDS.length - 1)]);
  }

  /** Advance by real seconds. */
  advance(seconds) {
    this.time = Math.min(this.time + seconds * this.speed, this.end);
    this.sought = false;
    if (this.time >= this.end) this.pause();
  }
}
