// What the user does: zoom, move, search, select.

const element = (id) => document.getElementById(id);
const [canvas, view, search] = [element("line"), element("view"), element("search")];
const model = load(element("data").textContent);
const drawing = new Drawing(canvas, model);

let isQueued = false;
function redraw() {
  if (isQueued) return;
  isQueued = true;
  requestAnimationFrame(() => {
    isQueued = false;
    drawing.scroll = view.scrollTop;
    drawing.draw();
  });
}

/** Adds an element with text, which is never read as HTML. */
function add(parent, tag, text = "") {
  const child = document.createElement(tag);
  child.textContent = text;
  parent.append(child);
  return child;
}

function showDetails() {
  const details = element("details");
  details.replaceChildren();
  const event = drawing.selected;
  if (event < 0) {
    add(details, "p", "None. Click an event, or press N in the time line.");
    return;
  }
  const values = model.raw.events[event];
  const lane = model.raw.lanes[values[0]];
  const list = add(details, "dl");
  const row = (label, text) => {
    add(list, "dt", label);
    add(list, "dd", text);
  };
  row("name", model.raw.names[values[1]]);
  row("lane", lane.label);
  row("start", spanText(lane, values[2]));
  row("duration", values[3] < 0 ? "none: its times are missing or reversed" : spanText(lane, values[3]));
  values.slice(4).forEach((value, index) => {
    const label = model.raw.fields[index + 4];
    if (value !== 0) row(label, label === "command" ? value - 1 : value);
  });
}

/** Selects an event and, if it is not visible, moves there. */
function select(event, isShown = true) {
  drawing.selected = event;
  showDetails();
  if (event >= 0 && isShown) {
    const [start, end] = [model.starts[event], model.ends[event]];
    const half = (drawing.to - drawing.from) / 2;
    if (start > drawing.to || end < drawing.from) drawing.show((start + end) / 2 - half, (start + end) / 2 + half);
    const top = drawing.topOf(event);
    if (top - view.scrollTop < AXIS || top - view.scrollTop > drawing.room - ROW) view.scrollTop = top - drawing.room / 2;
  }
  redraw();
}

/** The next event (`step` 1) or the one before (-1): of those that are searched, or of the lane. */
function step(step) {
  let events = model.order;
  if (drawing.wanted) events = events.filter((event) => drawing.wanted[model.names[event]]);
  else if (drawing.selected >= 0) events = model.raw.lanes[model.raw.events[drawing.selected][0]].sorted;
  if (events.length === 0) return;
  const place = events.indexOf(drawing.selected);
  const next = place >= 0 ? place + step : events.findIndex((event) => model.starts[event] >= drawing.from);
  select(events[(Math.max(next, place >= 0 ? -1 : 0) + events.length) % events.length]);
}

function find() {
  const text = search.value.toLowerCase();
  const matches = element("matches");
  if (text === "") {
    drawing.wanted = null;
    matches.textContent = "";
  } else {
    drawing.wanted = Uint8Array.from(model.raw.names, (name) => (name.toLowerCase().includes(text) ? 1 : 0));
    const count = model.names.reduce((count, name) => count + drawing.wanted[name], 0);
    matches.textContent = `${count} of ${model.count} events`;
  }
  redraw();
}

function zoomToSelected() {
  if (drawing.selected < 0) return;
  const [start, end] = [model.starts[drawing.selected], model.ends[drawing.selected]];
  const edge = Math.max((end - start) * 0.2, 1);
  drawing.show(start - edge, end + edge);
  redraw();
}

function move(share) {
  const distance = (drawing.to - drawing.from) * share;
  drawing.show(drawing.from + distance, drawing.to + distance);
  redraw();
}

function zoom(factor, x) {
  drawing.zoom(factor, x);
  redraw();
}

function clear() {
  if (search.value !== "") search.value = "";
  else select(-1);
  find();
}

function showAll() {
  drawing.all();
  redraw();
}

const KEYS = {
  "+": () => zoom(0.7), "=": () => zoom(0.7), w: () => zoom(0.7),
  "-": () => zoom(1 / 0.7), _: () => zoom(1 / 0.7), s: () => zoom(1 / 0.7),
  ArrowLeft: (isFar) => move(isFar ? -0.5 : -0.1), a: (isFar) => move(isFar ? -0.5 : -0.1),
  ArrowRight: (isFar) => move(isFar ? 0.5 : 0.1), d: (isFar) => move(isFar ? 0.5 : 0.1),
  ArrowUp: () => view.scrollBy(0, -2 * ROW), ArrowDown: () => view.scrollBy(0, 2 * ROW),
  n: () => step(1), p: () => step(-1), Enter: zoomToSelected, 0: showAll, Home: showAll, Escape: clear,
  "/": () => search.focus(),
  "?": () => {
    element("help").open = true;
    element("help").querySelector("summary").focus();
  },
};

canvas.addEventListener("keydown", (event) => {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[key]) return;
  event.preventDefault();
  KEYS[key](event.shiftKey);
});

search.addEventListener("input", find);
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
  if (event.key === "Escape") clear();
});
element("next").addEventListener("click", () => step(1));
element("previous").addEventListener("click", () => step(-1));
element("zoom-in").addEventListener("click", () => zoom(0.7));
element("zoom-out").addEventListener("click", () => zoom(1 / 0.7));
element("all").addEventListener("click", showAll);

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 200 : 1;
  const isSideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
  if (isSideways) move(((event.deltaX || event.deltaY) * unit) / drawing.width);
  else zoom(Math.exp(event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.0015)), event.offsetX);
}, { passive: false });

// One pointer moves, two zoom; a press that does not move selects.
const pointers = new Map();
let isDragged = false;
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  if (pointers.size === 0) isDragged = false;
  pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
});
canvas.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) return;
  const [x, y] = [event.offsetX, event.offsetY];
  if (!isDragged && pointers.size === 1 && Math.hypot(x - before[0], y - before[1]) < 4) return;
  isDragged = true;
  const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
  if (others.length === 0) {
    move((before[0] - x) / drawing.width);
    view.scrollTop += before[1] - y;
  } else {
    const [anchor] = others;
    const [old, now] = [Math.max(Math.abs(before[0] - anchor[0]), 8), Math.max(Math.abs(x - anchor[0]), 8)];
    zoom(old / now, anchor[0]);
  }
  pointers.set(event.pointerId, [x, y]);
});
function release(event) {
  if (pointers.delete(event.pointerId) && !isDragged && event.type === "pointerup") {
    select(drawing.at(event.offsetX, event.offsetY), false);
  }
}
canvas.addEventListener("pointerup", release);
canvas.addEventListener("pointercancel", release);
view.addEventListener("scroll", redraw);

function showNames() {
  const table = add(element("names"), "table");
  const head = add(add(table, "thead"), "tr");
  for (const label of ["Name", "Count", "Total", "Mean", "Longest"]) add(head, "th", label).scope = "col";
  const body = add(table, "tbody");
  for (const sum of totals(model).slice(0, 100)) {
    const row = add(body, "tr");
    const head = add(row, "th");
    head.scope = "row";
    const button = add(head, "button", model.raw.names[sum.name]);
    button.type = "button";
    button.addEventListener("click", () => {
      search.value = model.raw.names[sum.name];
      find();
    });
    add(head, "small", sum.kind);
    add(row, "td", sum.count);
    for (const value of [sum.total, sum.total / sum.count, sum.most]) add(row, "td", spanText(sum, Number(value.toFixed(1))));
  }
}

// Lanes as they are numbered have their events in order, for the steps of N and P.
for (const lane of model.lanes) {
  model.raw.lanes.find((raw) => raw.label === lane.label).sorted = lane.events;
}
const span = timeText(model.last - model.first);
element("summary").textContent = `${model.count} events of ${model.lanes.length} lanes in ${span}`;
element("room").style.height = "0px";
new ResizeObserver(() => {
  drawing.resize(view.clientWidth, view.clientHeight);
  element("room").style.height = `${Math.max(drawing.height - view.clientHeight, 0)}px`;
  redraw();
}).observe(view);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  drawing.scheme();
  redraw();
});
showNames();
drawing.all();
redraw();
