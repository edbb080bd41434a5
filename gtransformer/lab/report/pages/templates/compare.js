const PAGE = 60; // cards or rows per page
const PLACE = 0, SOURCE = 1, TEXTS = 2, SCORES = 3, MARKS = 4; // of a sentence
// The same tokenisation as for marked words; in scripts without blanks a character is a word.
const WORDS = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]|[\p{L}\p{M}\p{N}_]+|\s+|[^]/gu;
const chosen = (id) => (byId(id) ? byId(id).value : "");
const cut = (text) => text.match(WORDS) || [];
const blank = (word) => !word.trim();
let shownSystems = [], entries = [], made = 0;

// The n-th text of a sentence: 0 the reference, then the systems; equal ones are stored once.
function text(sentence, number) {
  const found = sentence[TEXTS][number];
  return typeof found === "number" ? sentence[TEXTS][found] : found;
}

// The longest common subsequence of two lists of words, as pairs of positions.
function common(one, other) {
  const width = other.length + 1, best = new Uint16Array((one.length + 1) * width);
  for (let i = one.length - 1; i >= 0; i--)
    for (let j = other.length - 1; j >= 0; j--)
      best[i * width + j] = one[i] === other[j] ? best[(i + 1) * width + j + 1] + 1
        : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
  const pairs = [];
  for (let i = 0, j = 0; i < one.length && j < other.length;) {
    if (one[i] === other[j]) pairs.push([i++, j++]);
    else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) i++;
    else j++;
  }
  return pairs;
}

// A text as nodes: words that the other text lacks are <ins>, words that this one lacks <del>, marked words <b>.
function nodes(own, base, missing, telling) {
  const words = cut(own), solid = words.filter((word) => !blank(word)), parts = [];
  const other = base === null ? solid : cut(base).filter((word) => !blank(word));
  let next = 0, from = 0, kept = 0;
  const pairs = own === base || base === null ? solid.map((_, i) => [i, i]) : common(solid, other);
  const lost = (to) => {
    if (missing && to > from) parts.push(make("del", {}, other.slice(from, to).join(" ")), " ");
  };
  for (const word of words) {
    if (blank(word)) { parts.push(word); continue; }
    const same = kept < pairs.length && pairs[kept][0] === next;
    if (same) { lost(pairs[kept][1]); from = pairs[kept++][1] + 1; }
    const kind = telling.get(word);
    const node = kind ? make("b", { class: "telling " + kind, title: TITLES[kind] }, word) : word;
    parts.push(same ? node : make("ins", {}, node));
    next++;
  }
  if (missing && other.length > from) parts.push(" ");
  lost(other.length);
  return parts;
}

const TITLES = { right: "as the context asks", wrong: "against the context", cue: "depends on context" };

function telling(sentence, number) {
  const found = new Map();
  for (const [, detail, , right, wrong] of sentence[MARKS] || []) {
    if (number < 0) for (const word of cut(detail.split(" -> ")[0])) found.set(word.toLowerCase(), "cue");
    else { right.forEach((word) => found.set(word, "right")); wrong.forEach((word) => found.set(word, "wrong")); }
  }
  if (number >= 0) return found;
  return { get: (word) => found.get(word.toLowerCase()) };
}

function cell(sentence, number, label) {
  const base = chosen("base") === "" ? -1 : Number(chosen("base"));
  const compared = number >= 0 && base >= 0 && base !== number && number > 0;
  const own = number < 0 ? sentence[SOURCE] : text(sentence, number);
  const parts = nodes(own, compared ? text(sentence, base) : null, byId("missing").checked, telling(sentence, number));
  const content = make("div", { dir: "auto", lang: data.languages[number < 0 ? 0 : 1] || null }, ...parts);
  const found = make("td", { role: "cell", "data-label": label, class: number > 0 ? "system" : null }, content);
  if (number > 0) {
    found.style.setProperty("--own", data.systems[number - 1].colour);
    found.append(make("span", { class: "score" }, (sentence[SCORES][number - 1] / 10).toFixed(1)));
  }
  return found;
}

// A button for each item of a sentence, which shows the sentence that the answer depends on.
function marks(entry, holder) {
  for (const [phenomenon, detail, distance] of entry.sentence[MARKS] || []) {
    const about = `${phenomenon}: ${detail}, disclosed ${distance ? distance + (distance > 1 ? " sentences" : " sentence") + " back" : "here"}`;
    const button = make("button", { type: "button", class: "mark", "aria-expanded": "false" }, about);
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      if (open) { button.nextSibling.remove(); return; }
      const place = entry.sentence[PLACE] - distance, known = entry.document[1].find((one) => one[PLACE] === place);
      const shown = known ? `${place}: ${known[SOURCE]} ${known[SOURCE] ? "– " : ""}${text(known, 0)}` : `${place}: not in the text`;
      button.after(make("span", { class: "discloses", dir: "auto" }, shown));
    });
    holder.append(button);
  }
}

function row(entry, named) {
  const place = (named ? `${entry.document[0]} · ` : "") + entry.sentence[PLACE];
  const line = make("tr", { role: "row" }, make("th", { scope: "row", role: "rowheader", class: "place" }, place));
  if (data.source) line.append(cell(entry.sentence, -1, "source"));
  const reference = cell(entry.sentence, 0, "reference");
  marks(entry, reference);
  line.append(reference, ...shownSystems.map((at) => cell(entry.sentence, at + 1, data.systems[at].name)));
  return line;
}

// A table of sentences; ``named``: with the document's number.
function table(some, named, label) {
  const title = (words, colour) => {
    const head = make("th", { scope: "col", role: "columnheader", class: colour ? "system" : null }, make("bdi", {}, words));
    if (colour) head.style.setProperty("--own", colour);
    return head;
  };
  const place = make("th", { scope: "col", role: "columnheader", class: "place" }, named ? "document · sentence" : "sentence");
  const head = make("tr", { role: "row" }, place);
  if (data.source) head.append(title("source"));
  head.append(title("reference"), ...shownSystems.map((at) => title(data.systems[at].name, data.systems[at].colour)));
  const body = make("tbody", { role: "rowgroup" }, ...some.map((entry) => row(entry, named)));
  const found = make("table", { class: "texts", role: "table", "aria-label": label }, make("thead", { role: "rowgroup" }, head), body);
  const wide = shownSystems.length > 4;
  return make("div", wide ? { class: "wide", role: "region", "aria-label": label, tabindex: "0" } : {}, found);
}

const mean = (some, at) => some.reduce((sum, one) => sum + one.sentence[SCORES][at], 0) / some.length / 10;

function scores(some) {
  return shownSystems.map((at) => {
    const found = make("span", { class: "score" }, swatch(data.systems[at].colour), make("bdi", {}, data.systems[at].name));
    found.append(" " + mean(some, at).toFixed(1));
    return found;
  });
}

function card(group, open) {
  const name = `Document ${group.document[0]}`, count = group.some.length;
  const button = make("button", { type: "button", "aria-expanded": "false" }, name);
  const head = make("h2", {}, button, make("span", { class: "score" }, `${count} sentence${count > 1 ? "s" : ""}`), ...scores(group.some));
  const found = make("section", { class: "document" }, head);
  const toggle = () => {
    const opened = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!opened));
    if (opened) found.lastChild.remove();
    else found.append(table(group.some, false, name));
  };
  button.addEventListener("click", toggle);
  if (open) toggle();
  return found;
}

function wanted(sentence) {
  const [low, high] = (chosen("position") || "1,").split(","), kind = chosen("phenomenon");
  if (sentence[PLACE] < Number(low) || (high && sentence[PLACE] > Number(high))) return false;
  return !kind || (sentence[MARKS] || []).some((mark) => kind === "*" || "=" + mark[0] === kind);
}

function ordered(list, some) {
  const last = Number(chosen("second") || 0), first = Number(chosen("first") || 0);
  const rank = { gain: (one) => mean(some(one), first) - mean(some(one), last), low: (one) => mean(some(one), last) };
  rank.loss = (one) => -rank.gain(one);
  rank.high = (one) => -rank.low(one);
  const by = rank[chosen("order")];
  if (!by) return list;
  return list.map((one) => [by(one), one]).sort((one, other) => one[0] - other[0]).map(([, one]) => one);
}

function more() {
  const part = entries.slice(made, made + PAGE), sentences = chosen("unit") === "sentences";
  if (sentences && part.length) byId("shown").append(table(part, true, `Sentences from ${made + 1} of the order`));
  if (!sentences) byId("shown").append(...part.map((group, number) => card(group, made + number === 0)));
  made += part.length;
  byId("more").hidden = made >= entries.length;
}

function show() {
  const boxes = [...document.querySelectorAll("input[name=system]")];
  shownSystems = boxes.length ? boxes.filter((box) => box.checked).map((box) => Number(box.value)) : [0];
  const groups = data.documents.map((document) => ({
    document, some: document[1].filter(wanted).map((sentence) => ({ document, sentence })),
  })).filter((group) => group.some.length);
  const all = groups.flatMap((group) => group.some);
  const sentences = chosen("unit") === "sentences";
  entries = sentences ? ordered(all, (one) => [one]) : ordered(groups, (one) => one.some);
  byId("all").hidden = sentences;
  made = 0;
  byId("shown").replaceChildren();
  byId("status").replaceChildren(`${all.length} sentences in ${groups.length} documents. `, ...(all.length ? scores(all) : []));
  more();
}

byId("more").addEventListener("click", more);
byId("all").addEventListener("click", () => {
  while (made < entries.length) more();
  document.querySelectorAll(".document > h2 > button[aria-expanded=false]").forEach((button) => button.click());
});
document.querySelector("form").addEventListener("change", show);
document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
show();
