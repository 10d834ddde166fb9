// The search of the manual, which finds names while they are typed, and the buttons that copy blocks of code. Every page
// loads this file; the names are in names.js, which is loaded when the box is used first, as a script, since pages that are
// opened as files cannot load data.
"use strict";

// How well a name matches, best first. Of equal ones those of an earlier kind come first, then shorter ones.
const WHOLE = 0, LAST_PART = 1, START = 2, WORD = 3, INSIDE = 4, STEM = 5, TEXT = 6, TEXT_STEM = 7, NOT = 8;
const SHOWN = 40;
// Words that say nothing between others.
const SMALL_WORDS = ["a", "an", "and", "are", "for", "in", "is", "of", "on", "or", "the", "to"];

// Marks before a name, letter case and the difference between `-` and `_` do not matter.
function plain(text) {
  return text.toLowerCase().replace(/-/g, "_").replace(/^[^a-z0-9]+/, "");
}

// True if `term` is in `text` and not in the middle of a word.
function startsWord(text, term) {
  for (let at = text.indexOf(term); at >= 0; at = text.indexOf(term, at + 1)) {
    if (at === 0 || !/[a-z0-9]/.test(text[at - 1])) return true;
  }
  return false;
}

// Endings of English words, longest first, with the fewest letters that stay before each. Of "allocations", "allocated" and
// "allocator" the same stays, and so does of "compile", "compiler" and "compiling". A rule in this file alone serves for what
// is typed and for what is looked through, so it need not be right, only the same.
const ENDINGS = [
  ["ifications", 3], ["ification", 3], ["ications", 4], ["ication", 4], ["ifying", 3], ["ifiers", 3], ["ifier", 3], ["ified", 3], ["ifies", 3], ["ify", 3],
  ["izations", 4], ["isations", 4], ["ization", 4], ["isation", 4], ["izing", 4], ["ising", 4], ["ized", 4], ["ised", 4], ["izes", 4],
  ["ises", 4], ["izer", 4], ["iser", 4], ["ize", 4], ["ise", 4],
  ["ations", 4], ["ation", 4], ["ating", 4], ["ators", 4], ["ator", 4], ["ated", 4], ["ates", 4], ["ate", 4],
  ["ments", 4], ["ment", 4], ["ables", 4], ["able", 4], ["ness", 4], ["ions", 4], ["ion", 4], ["ings", 3], ["ing", 3], ["ies", 3],
  ["ers", 4], ["ors", 4], ["er", 4], ["or", 4], ["ed", 3], ["es", 3], ["s", 3],
];
const stems = new Map();

// The stem of a word, for words of letters that are long enough to have one.
function stemOf(word) {
  let stem = stems.get(word);
  if (stem === undefined) {
    stem = word;
    const ending = /^[a-z]+$/.test(word) && !word.endsWith("ss") &&
      ENDINGS.find(([ending, fewest]) => word.endsWith(ending) && word.length >= ending.length + fewest);
    if (ending) stem = word.slice(0, -ending[0].length);
    // "multiplies" and "multiply", "stopped" and "stops".
    if (/^[a-z]{4,}$/.test(stem)) stem = stem.replace(/[eiy]$/, "").replace(/([b-df-hj-np-tv-z])\1$/, "$1");
    stems.set(word, stem);
  }
  return stem;
}

function stemsOf(text) {
  return new Set(text.split(/[^a-z0-9]+/).map(stemOf));
}

function rankOf(term, entry) {
  const name = entry.plain;
  if (name === term || (entry.kind === "op" && "vm." + name === term)) return WHOLE;
  if (!entry.isMember && name.endsWith("." + term)) return LAST_PART;
  if (name.startsWith(term) || (entry.kind === "op" && ("vm." + name).startsWith(term))) return START;
  if (startsWord(name, term)) return WORD;
  if (name.includes(term)) return INSIDE;
  entry.stems ??= [stemsOf(name), stemsOf(entry.text)];
  const stem = stemOf(term);
  if (entry.stems[0].has(stem)) return STEM;
  if (startsWord(entry.text, term)) return TEXT;
  return entry.stems[1].has(stem) ? TEXT_STEM : NOT;
}

// Several words are one name written apart, or all of them match somewhere.
function rank(terms, entry) {
  if (terms.length === 1) return rankOf(terms[0], entry);
  const apart = Math.max(WORD, ...terms.map((term) => rankOf(term, entry)));
  return Math.min(apart, ...["_", ".", " "].map((between) => rankOf(terms.join(between), entry)));
}

// The entries of names.js as objects.
function read(data) {
  const members = ["field", "value", "section"];
  return data.names.map(([kind, page, name, id, text]) => ({
    order: kind,
    kind: data.kinds[kind],
    isMember: members.includes(data.kinds[kind]),
    name,
    plain: plain(name),
    shown: text,
    text: plain(data.kinds[kind] + " " + text),
    title: data.pages[page][1],
    href: data.pages[page][0] + (id ? "#" + encodeURIComponent(id) : ""),
  }));
}

// The best matches of what was typed.
function find(entries, query) {
  const typed = query.split(/\s+/).map(plain).filter((term) => term !== "");
  const telling = typed.filter((term) => !SMALL_WORDS.includes(term));
  const terms = telling.length > 0 ? telling : typed;
  if (terms.length === 0) return [];
  const found = [];
  for (const entry of entries) {
    const worth = rank(terms, entry);
    if (worth < NOT) found.push([worth, entry]);
  }
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  found.sort(([worth, a], [other, b]) =>
    worth - other || a.order - b.order || a.name.length - b.name.length || compare(a.name, b.name) || compare(a.href, b.href));
  return found.slice(0, SHOWN).map(([, entry]) => entry);
}

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// The box and the list below it, as a combobox: the focus stays in the box, arrows choose, Enter goes there.
function attach(box) {
  const form = box.form;
  const list = element("div", { id: "page-results", hidden: true });
  const status = element("p", { className: "unseen" });
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Names found");
  status.setAttribute("role", "status");
  box.setAttribute("role", "combobox");
  box.setAttribute("aria-controls", list.id);
  box.setAttribute("aria-autocomplete", "list");
  form.append(list, status);

  let entries = null, results = [], chosen = -1, requested = false;

  function show(open) {
    list.hidden = !open;
    box.setAttribute("aria-expanded", String(open));
  }

  function choose(index) {
    chosen = index;
    [...list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === index)));
    const item = list.children[index];
    if (item && results.length > 0) {
      box.setAttribute("aria-activedescendant", item.id);
      item.scrollIntoView({ block: "nearest" });
    } else {
      box.removeAttribute("aria-activedescendant");
    }
  }

  function item(entry, index) {
    const made = element("a", { id: "page-result-" + index, href: entry.href, tabIndex: -1 },
      element("code", {}, entry.name), " ",
      element("span", { className: "kind" }, entry.kind), " ",
      element("span", { className: "where" }, entry.title),
      element("span", { className: "doc" }, entry.shown));
    made.setAttribute("role", "option");
    return made;
  }

  function update() {
    const query = box.value.trim();
    if (entries === null || query === "") {
      status.textContent = "";
      show(false);
      return;
    }
    results = find(entries, query);
    const nothing = item({ href: "all.html", name: "No name matches", kind: "page", title: "All names", shown: "" }, 0);
    list.replaceChildren(...(results.length > 0 ? results.map(item) : [nothing]));
    status.textContent = results.length === 1 ? "1 name found" : results.length + " names found";
    show(true);
    choose(results.length > 0 ? 0 : -1);
  }

  function load() {
    if (requested) return;
    requested = true;
    const script = element("script", { src: "names.js" });
    script.onload = () => {
      entries = read(window.vireoNames);
      update();
    };
    document.head.append(script);
  }

  show(false);
  box.addEventListener("focus", () => {
    load();
    update();
  });
  box.addEventListener("input", update);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      if (list.hidden) box.value = "";
      show(false);
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && results.length > 0 && !list.hidden) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : results.length - 1;
      choose((chosen + step) % results.length);
    }
  });
  // Without results the form goes to the page of all names, as it does without this script.
  form.addEventListener("submit", (event) => {
    const entry = results[chosen];
    if (entry === undefined || list.hidden) return;
    event.preventDefault();
    show(false);
    box.blur();
    window.location.href = entry.href;
  });
  list.addEventListener("click", () => show(false));
  document.addEventListener("pointerdown", (event) => {
    if (!form.contains(event.target)) show(false);
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input, textarea, select");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      box.focus();
      box.select();
    }
  });
  const asked = new URLSearchParams(window.location.search).get("q");
  if (asked) {
    box.value = asked;
    box.focus();
  }
}

// The text that the button of a block copies: of a session in a shell the commands, without their prompts.
function textToCopy(text) {
  const commands = [];
  let goesOn = false;
  for (const line of text.split("\n")) {
    const isCommand = line.startsWith("$ ");
    if (isCommand || goesOn) commands.push(isCommand ? line.slice(2) : line);
    goesOn = (isCommand || goesOn) && line.trimEnd().endsWith("\\");
  }
  return commands.length > 0 ? commands.join("\n") : text.trimEnd();
}

// A button on each block of code, where the browser lets a page write to the clipboard.
function addCopyButtons() {
  if (!navigator.clipboard) return;
  for (const block of document.querySelectorAll("main pre")) {
    const text = textToCopy(block.textContent);
    const button = element("button", { type: "button", className: "copy", textContent: "Copy" });
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    const frame = element("div", { className: "block" });
    block.replaceWith(frame);
    frame.append(block, button);
  }
}

// Tests take the functions above, and have no document.
if (typeof document !== "undefined") {
  attach(document.getElementById("page-search"));
  addCopyButtons();
}
