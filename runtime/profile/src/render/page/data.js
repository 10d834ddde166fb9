"use strict";

// The data of the page as lanes of rows: events of a row do not overlap, and are in the order of their begins, so that
// what is visible is found by binary search.

const MOST_ROWS = 32;

/** The first index from `low` on for which `values[index] >= wanted`. */
function firstFrom(values, wanted, low = 0) {
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (values[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Puts the events of a lane into as few rows as their overlaps allow; the last one takes what is left. */
function rowsOf(events, starts, ends) {
  const rows = [];
  for (const event of events) {
    let row = rows.find((row) => row.end <= starts[event]);
    if (!row && rows.length < MOST_ROWS) rows.push((row = { events: [], end: -Infinity }));
    row ??= rows[rows.length - 1];
    row.events.push(event);
    row.end = Math.max(row.end, ends[event]);
  }
  return rows.map((row) => ({ events: row.events, starts: Float64Array.from(row.events, (event) => starts[event]) }));
}

/** Reads the data: `events` by columns, `lanes` with their rows, and `tracks` of values. */
function load(text) {
  const raw = JSON.parse(text);
  const count = raw.events.length;
  const starts = new Float64Array(count);
  const ends = new Float64Array(count);
  const names = new Uint32Array(count);
  const lanes = raw.lanes.map((lane) => ({ ...lane, events: [] }));
  // Functions of several devices may have one name, which then is one for searches and sums.
  const places = new Map(raw.names.map((name, place) => [name, place]));
  let [first, last] = [Infinity, -Infinity];
  raw.events.forEach(([lane, name, start, duration], event) => {
    starts[event] = start;
    ends[event] = start + Math.max(duration, 0);
    names[event] = places.get(raw.names[name]);
    lanes[lane].events.push(event);
    first = Math.min(first, start);
    last = Math.max(last, ends[event]);
  });
  const byStart = (a, b) => starts[a] - starts[b] || ends[b] - ends[a] || a - b;
  for (const lane of lanes) {
    lane.events.sort(byStart);
    lane.rows = rowsOf(lane.events, starts, ends);
  }
  lanes.sort((a, b) => a.order.reduce((less, value, index) => less || value - b.order[index], 0));
  const tracks = raw.tracks.map((track) => ({ ...track, points: [] }));
  for (const [track, time, value] of raw.samples) {
    if (value !== null) tracks[track].points.push([time, value]);
    first = Math.min(first, time);
    last = Math.max(last, time);
  }
  for (const track of tracks) {
    track.points.sort((a, b) => a[0] - b[0]);
    track.times = Float64Array.from(track.points, (point) => point[0]);
    track.values = Float64Array.from(track.points, (point) => point[1]);
    track.most = track.values.reduce((most, value) => Math.max(most, value), 0);
    track.least = track.values.reduce((least, value) => Math.min(least, value), 0);
    delete track.points;
  }
  if (first > last) [first, last] = [0, 1];
  const order = Uint32Array.from({ length: count }, (_, event) => event).sort(byStart);
  return { raw, count, starts, ends, names, lanes, tracks, first, last: Math.max(last, first + 1), order };
}

/** What the events of each name and kind of lane add up to, the most time first. */
function totals(model) {
  const sums = new Map();
  for (const lane of model.lanes) {
    const kind = lane.label.split(":")[0] + (lane.ticks ? " (ticks)" : "");
    for (const event of lane.events) {
      const key = `${kind}\n${model.names[event]}`;
      const sum = sums.get(key) ?? { kind, ticks: lane.ticks, name: model.names[event], count: 0, total: 0, most: 0 };
      const duration = model.ends[event] - model.starts[event];
      sum.count += 1;
      sum.total += duration;
      sum.most = Math.max(sum.most, duration);
      sums.set(key, sum);
    }
  }
  return [...sums.values()].sort((a, b) => b.total - a.total);
}

/** A time in the unit that fits. */
function timeText(nanoseconds, digits = 3) {
  const size = Math.abs(nanoseconds);
  const [unit, scale] = size < 1e3 ? ["ns", 1] : size < 1e6 ? ["µs", 1e3] : size < 1e9 ? ["ms", 1e6] : ["s", 1e9];
  return `${Number((nanoseconds / scale).toFixed(digits))} ${unit}`;
}

/** A number of bytes in the unit that fits, or a value of another unit. */
function valueText(value, unit) {
  if (unit !== "bytes" || value < 1024) return `${value} ${unit}`;
  const power = Math.min(Math.floor(Math.log2(value) / 10), 4);
  return `${Number((value / 1024 ** power).toFixed(2))} ${["", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

/** A time of a lane, which may be in ticks of a device. */
function spanText(lane, value) {
  return lane.ticks ? `${value} ticks` : timeText(value);
}
