// The canvas: an axis, and below it lanes with rows of events, and tracks with lines. One pixel shows one event of a row:
// those that are narrower are skipped by binary search, so the work depends on pixels and not on events.

const AXIS = 24;
const ROW = 20;
const HEAD = 18;
const GAP = 8;
const TRACK = 44;

/** The places of lanes and tracks from top to bottom. */
function layout(model) {
  let top = AXIS + 4;
  const parts = [];
  for (const lane of model.lanes) {
    const height = HEAD + lane.rows.length * ROW;
    parts.push({ lane, top, height });
    top += height + GAP;
  }
  for (const track of model.tracks) {
    parts.push({ track, top, height: HEAD + TRACK });
    top += HEAD + TRACK + GAP;
  }
  return { parts, height: top };
}

/** The colours of the page, which depend on the scheme. */
function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ground", "panel", "text", "faint", "edge", "focus", "match", "bad", "bar", "bar-edge", "bar-text"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

class Drawing {
  constructor(canvas, model) {
    Object.assign(this, { canvas, model, context: canvas.getContext("2d"), colours: colours(), bars: new Map() });
    Object.assign(this, layout(model));
    Object.assign(this, { from: model.first, to: model.last, scroll: 0, selected: -1, wanted: null, width: 1, room: 1 });
  }

  resize(width, height) {
    const ratio = window.devicePixelRatio || 1;
    [this.width, this.room] = [Math.max(width, 1), Math.max(height, 1)];
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.room * ratio);
    this.canvas.style.height = `${this.room}px`;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  scheme() {
    this.colours = colours();
    this.bars.clear();
  }

  x(time) {
    return ((time - this.from) / (this.to - this.from)) * this.width;
  }

  time(x) {
    return this.from + (x / this.width) * (this.to - this.from);
  }

  bar(name) {
    if (!this.bars.has(name)) {
      const hue = (name * 137.508 + 210) % 360;
      this.bars.set(name, [`hsl(${hue} ${this.colours.bar})`, `hsl(${hue} ${this.colours["bar-edge"]})`]);
    }
    return this.bars.get(name);
  }

  draw() {
    const { context, colours } = this;
    context.fillStyle = colours.ground;
    context.fillRect(0, 0, this.width, this.room);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.grid();
    for (const part of this.parts) {
      const top = part.top - this.scroll;
      if (top > this.room || top + part.height < AXIS) continue;
      if (part.lane) part.lane.rows.forEach((row, index) => this.row(part.lane, row, top + HEAD + index * ROW));
      else this.track(part.track, top + HEAD);
      const { least, most, unit } = part.track ?? {};
      const extent = part.track ? ` (${valueText(least, unit)} to ${valueText(most, unit)})` : "";
      context.fillStyle = colours.faint;
      context.fillText((part.lane ?? part.track).label + extent, 6, top + HEAD / 2);
    }
    this.axis();
  }

  /** Times of the axis: 1, 2 or 5 of a power of ten, at least 90 pixels apart. */
  steps() {
    const least = ((this.to - this.from) / this.width) * 90;
    const power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least);
    const times = [];
    const first = Math.ceil(this.from / step);
    for (let index = first; index * step <= this.to && times.length < 100; index += 1) times.push(index * step);
    return times;
  }

  grid() {
    this.context.fillStyle = this.colours.panel;
    for (const time of this.steps()) this.context.fillRect(Math.round(this.x(time)), AXIS, 1, this.room);
  }

  axis() {
    const { context, colours } = this;
    context.fillStyle = colours.panel;
    context.fillRect(0, 0, this.width, AXIS);
    context.fillStyle = colours.text;
    for (const time of this.steps()) {
      const x = Math.round(this.x(time));
      context.fillRect(x, AXIS - 5, 1, 5);
      const text = timeText(time, 6);
      if (x + context.measureText(text).width + 4 < this.width) context.fillText(text, x + 4, AXIS / 2);
    }
  }

  row(lane, row, top) {
    if (top > this.room || top + ROW < AXIS) return;
    const { starts, ends, names } = this.model;
    const scale = this.width / (this.to - this.from);
    let index = Math.max(firstFrom(row.starts, this.from) - 1, 0);
    while (index < row.events.length && row.starts[index] <= this.to) {
      const event = row.events[index];
      const left = (starts[event] - this.from) * scale;
      const right = (ends[event] - this.from) * scale;
      let next = index + 1;
      if (right - left < 1.5) next = firstFrom(row.starts, this.from + (Math.floor(left) + 1) / scale, next);
      if (right >= 0) {
        let isWanted = !this.wanted || this.wanted[names[event]];
        for (let other = index + 1; !isWanted && other < next; other += 1) isWanted = this.wanted[names[row.events[other]]];
        this.event(event, Math.max(left, -2), Math.min(right, this.width + 2), top, isWanted);
      }
      index = next;
    }
    if (this.isIn(row, this.selected)) {
      const left = Math.max(this.x(starts[this.selected]), -4);
      const right = Math.min(this.x(ends[this.selected]), this.width + 4);
      this.context.strokeStyle = this.colours.focus;
      this.context.lineWidth = 2.5;
      this.context.strokeRect(left - 1.5, top + 0.5, Math.max(right - left, 2) + 3, ROW - 3);
    }
  }

  /** Whether a row has an event; -1 is none. */
  isIn(row, event) {
    if (event < 0) return false;
    const start = this.model.starts[event];
    let place = firstFrom(row.starts, start);
    while (place < row.events.length && row.starts[place] === start && row.events[place] !== event) place += 1;
    return row.events[place] === event;
  }

  event(event, left, right, top, isWanted) {
    const { context, colours, model } = this;
    const name = model.names[event];
    const [fill, edge] = this.bar(name);
    const isBad = model.raw.events[event][3] < 0;
    context.globalAlpha = isWanted ? 1 : 0.2;
    context.fillStyle = isBad ? colours.bad : fill;
    const width = Math.max(right - left - 0.5, 1.5);
    context.fillRect(left, top + 2, width, ROW - 5);
    context.fillStyle = isBad ? colours.bad : this.wanted && isWanted ? colours.match : edge;
    context.fillRect(left, top + 2, Math.min(width, 2), ROW - 5);
    if (this.wanted && isWanted && width > 3) context.fillRect(left, top + ROW - 5, width, 2);
    const inside = Math.max(left, 0);
    const room = Math.floor((right - inside - 8) / 6.6);
    if (room >= 3) {
      const text = model.raw.names[name];
      context.fillStyle = colours["bar-text"];
      context.fillText(text.length > room ? `${text.slice(0, room - 1)}…` : text, inside + 5, top + ROW / 2);
    }
    context.globalAlpha = 1;
  }

  /** A line of steps, with the least and the most of each pixel. */
  track(track, top) {
    const { context, colours } = this;
    const span = track.most - track.least || 1;
    const y = (value) => top + TRACK - 2 - ((value - track.least) / span) * (TRACK - 6);
    context.fillStyle = colours.panel;
    context.fillRect(0, top, this.width, TRACK);
    context.strokeStyle = colours.focus;
    context.lineWidth = 1.5;
    context.beginPath();
    let index = Math.max(firstFrom(track.times, this.from) - 1, 0);
    let last = null;
    while (index < track.times.length && track.times[index] <= this.to) {
      const x = Math.max(this.x(track.times[index]), 0);
      const next = Math.max(firstFrom(track.times, this.time(Math.floor(x) + 1), index), index + 1);
      let [least, most] = [Infinity, -Infinity];
      for (let point = index; point < next; point += 1) {
        least = Math.min(least, track.values[point]);
        most = Math.max(most, track.values[point]);
      }
      if (last === null) context.moveTo(x, y(track.values[index]));
      else context.lineTo(x, y(last));
      context.lineTo(x, y(most));
      context.lineTo(x, y(least));
      last = track.values[next - 1];
      context.lineTo(x, y(last));
      index = next;
    }
    if (last !== null) context.lineTo(this.width, y(last));
    context.stroke();
  }

  /** The event at a place of the canvas, or -1: of those near it the one that is nearest. */
  at(x, y) {
    if (y < AXIS) return -1;
    const { starts, ends } = this.model;
    const part = this.parts.find((part) => part.lane && y + this.scroll >= part.top && y + this.scroll < part.top + part.height);
    const row = part?.lane.rows[Math.floor((y + this.scroll - part.top - HEAD) / ROW)];
    if (!row) return -1;
    const [time, near] = [this.time(x), ((this.to - this.from) / this.width) * 5];
    const distance = (event) => Math.max(starts[event] - time, time - ends[event], 0);
    const place = firstFrom(row.starts, time);
    const candidates = row.events.slice(Math.max(place - 2, 0), place + 2).filter((event) => distance(event) <= near);
    return candidates.reduce((best, event) => (best < 0 || distance(event) < distance(best) ? event : best), -1);
  }

  /** The place of the row of an event from the top. */
  topOf(event) {
    const number = this.model.raw.events[event][0];
    const lane = this.model.raw.lanes[number];
    const part = this.parts.find((part) => part.lane?.label === lane.label);
    const index = part.lane.rows.findIndex((row) => this.isIn(row, event));
    return part.top + HEAD + index * ROW;
  }

  /** Shows a span of time, which stays within the events and a part beyond them. */
  show(from, to) {
    const whole = this.model.last - this.model.first;
    const span = Math.min(Math.max(to - from, Math.max(whole * 1e-9, 1e-1)), whole * 1.5);
    const middle = Math.min(Math.max((from + to) / 2, this.model.first - span / 4), this.model.last + span / 4);
    [this.from, this.to] = [middle - span / 2, middle + span / 2];
  }

  zoom(factor, x = this.width / 2) {
    const time = this.time(x);
    this.show(time - (time - this.from) * factor, time + (this.to - time) * factor);
  }

  all() {
    const edge = (this.model.last - this.model.first) * 0.01;
    this.show(this.model.first - edge, this.model.last + edge);
  }
}
