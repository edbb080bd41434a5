const SHOWN = 6; // keys listed for each attention
const LISTED = { source: "source", target: "translation", context: "context" };
let focus = null, kept = false; // the shown item: {instance, side, kind: "word" | "sentence", index}

// The rows of a map: for each query its keys with their shares, strongest first (format: Rows.packed).
function rows(packed) {
  const bytes = Uint8Array.from(atob(packed), (one) => one.charCodeAt(0)), found = [];
  const pair = (at) => bytes[at] + 256 * bytes[at + 1];
  for (let at = 0; at < bytes.length;) {
    const row = [];
    for (let left = bytes[at++]; left > 0; left--, at += 4) row.push([pair(at), pair(at + 2) / 65535]);
    found.push(row);
  }
  return found;
}

// An instance, whose maps are decoded at first use.
const instances = data.instances.map((one) => ({
  ...one,
  flat: Object.fromEntries(Object.entries(one.words).map(([side, sentences]) =>
    [side, sentences.flatMap((words, sentence) => words.map((word) => ({ word, sentence })))])),
  cells: {},
  read: one.maps.map(([part, reach, layer, words, sentences]) => ({ part, reach, layer, packed: { word: words, sentence: sentences } })),
}));

function row(map, kind, index) {
  map[kind] = map[kind] || rows(map.packed[kind]);
  return map[kind][index] || [];
}

const queries = (part) => data.sides[part][0], keys = (part) => data.sides[part][1];
// Sentences are numbered as in the document; without context its boundary token has no sentence.
const none = (instance, side) => instance.starts[side] === null;
const number = (instance, side, sentence) => (none(instance, side) ? "–" : instance.starts[side] + sentence);
const where = (instance, side, sentence) => (none(instance, side) ? "no context" : `sentence ${number(instance, side, sentence)}`);
const isMark = (word) => word === "<s>" || word === "</s>";

function names(instance, side, kind, index) {
  if (kind === "sentence" || none(instance, side)) return where(instance, side, index);
  const { word, sentence } = instance.flat[side][index];
  return `${isMark(word) ? (word === "<s>" ? "begin of" : "end of") : `“${word}” in`} ${where(instance, side, sentence)}`;
}

function bar(share, label) {
  const found = make("span", { class: "bar" }, `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`);
  found.style.setProperty("--share", share);
  return make("li", {}, found, make("bdi", {}, label));
}

function title(map) {
  const reach = map.layer ? `${map.reach}, layer ${map.layer}` : "group and global, as the gates weigh them";
  return `${data.names[map.part]}: ${reach}`;
}

// All attention of the selected item in a layer.
function maps() {
  const layer = Number(byId("layer").value);
  return focus.instance.read.filter((map) => map.layer === layer && queries(map.part) === focus.side);
}

function panel() {
  const parts = [make("h2", {}, make("bdi", {}, names(focus.instance, focus.side, focus.kind, focus.index)), ` (${LISTED[focus.side]})`)];
  for (const map of maps()) {
    const found = row(map, focus.kind, focus.index).slice(0, SHOWN);
    const list = found.map(([key, share]) => bar(share, names(focus.instance, keys(map.part), focus.kind, key)));
    const rest = 1 - found.reduce((sum, [, share]) => sum + share, 0);
    if (rest > 0.005 && found.length) list.push(bar(rest, "all others"));
    parts.push(make("h3", {}, title(map)), list.length ? make("ul", {}, ...list) : make("p", { class: "soft" }, "nothing"));
  }
  const gates = focus.instance.gates.filter(([part]) => queries(part) === focus.side).map(([part, layer, packed, sentences]) => {
    const share = focus.kind === "sentence" ? sentences[focus.index] : atob(packed).charCodeAt(focus.index) / 255;
    return bar(share, `${data.names[part]}, layer ${layer}`);
  });
  if (gates.length) parts.push(make("h3", {}, "gates (100 %: the sentence alone)"), make("ul", {}, ...gates));
  byId("panel").replaceChildren(...parts);
}

function shade() {
  document.querySelectorAll(".strong, .chosen, .word[style], .sentence[style]").forEach((one) => {
    one.classList.remove("strong", "chosen", "kept");
    one.removeAttribute("style");
  });
  if (!focus) return;
  for (const map of maps().filter((one) => one.reach === byId("reach").value || !one.layer)) {
    row(map, focus.kind, focus.index).forEach(([key, share], place) => {
      const cell = focus.instance.cells[`${keys(map.part)} ${focus.kind} ${key}`];
      if (!cell) return;
      cell.style.setProperty("--share", 0.9 * Math.sqrt(share)); // makes small shares visible
      if (place < 3) cell.classList.add("strong");
    });
  }
  const own = focus.instance.cells[`${focus.side} ${focus.kind} ${focus.index}`];
  own.classList.add("chosen");
  if (kept) own.classList.add("kept");
}

function choose(next) {
  focus = next;
  if (focus) panel();
  shade();
}

// A word or the number of a sentence; ``at`` is its position for arrow keys: [row, column, position in the cell].
function target(tag, instance, side, kind, index, label, words) {
  const element = make(tag, { class: kind, tabindex: "-1", role: "button", "aria-label": label }, words);
  element.found = { instance, side, kind, index };
  instance.cells[`${side} ${kind} ${index}`] = element;
  return element;
}

function sentenceWords(instance, side, sentence, start) {
  const cell = make("td", { dir: "auto" });
  const label = `${LISTED[side]}, ${where(instance, side, sentence)}`;
  cell.append(target("button", instance, side, "sentence", sentence, label, String(number(instance, side, sentence))), " ");
  instance.words[side][sentence].forEach((word, place) => {
    if (side === "target" && word === "<s>") { // forced, not predicted
      const shown = make("span", { class: "word mark" }, word);
      instance.cells[`${side} word ${start + place}`] = shown;
      cell.append(shown, " ");
      return;
    }
    const shown = target("span", instance, side, "word", start + place, null, make("bdi", {}, word));
    if (isMark(word)) shown.classList.add("mark");
    cell.append(shown, " ");
  });
  return cell;
}

function table(instance) {
  const body = make("tbody"), starts = Object.fromEntries(Object.keys(instance.words).map((side) => [side, 0]));
  const own = (side, sentence) => {
    const cell = sentenceWords(instance, side, sentence, starts[side]);
    starts[side] += instance.words[side][sentence].length;
    return cell;
  };
  const early = (side, sentence) => body.append(make("tr", { class: "context" }, own(side, sentence), make("td")));
  (instance.words.context || []).forEach((_, sentence) => early("context", sentence));
  const lead = instance.words.source.length - instance.words.target.length;
  for (let sentence = 0; sentence < lead; sentence++) early("source", sentence);
  instance.words.target.forEach((_, sentence) =>
    body.append(make("tr", {}, own("source", lead + sentence), own("target", sentence))));
  body.querySelector("button").tabIndex = 0; // one stop for the Tab key; arrow keys move from there
  const heads = [instance.words.context || lead ? "context, then source" : "source", "translation"];
  return make("table", { class: "text" }, make("thead", {}, make("tr", {}, ...heads.map((one) => make("th", { scope: "col" }, one)))), body);
}

function section(instance, place) {
  const last = instance.first + instance.words.target.length - 1;
  const which = last > instance.first ? `Sentences ${instance.first} to ${last}, translated as one` : `Sentence ${last}`;
  const details = make("details", {}, make("summary", {}, which));
  const fill = () => { if (details.open && details.children.length === 1) details.append(table(instance)); };
  details.addEventListener("toggle", fill);
  details.open = place === 0;
  fill();
  return details;
}

function fillControls() {
  const layers = [...new Set(data.instances.flatMap((one) => one.maps.map(([, , layer]) => layer)))].sort((a, b) => a - b);
  const name = (layer) => (layer ? `layer ${layer}` : "all with a gate, as it weighs");
  byId("layer").append(...layers.map((layer) => make("option", { value: layer }, name(layer))));
  byId("layer").value = layers.length > 1 ? layers[layers.length - 1] : layers[0];
  const reaches = [...new Set(data.instances.flatMap((one) => one.maps.filter((map) => map[2]).map(([, reach]) => reach)))];
  byId("reach").append(...reaches.map((reach) => make("option", { value: reach }, `${reach} attention`)));
  if (reaches.includes("global")) byId("reach").value = "global";
}

// The next word or sentence number in a direction: along the text, or the same position one line up or down.
function step(from, key) {
  const all = [...from.closest("tbody").querySelectorAll("[role=button]")];
  if (key === "ArrowRight" || key === "ArrowLeft") return all[all.indexOf(from) + (key === "ArrowRight" ? 1 : -1)];
  const cell = from.closest("td"), line = cell.parentElement;
  const next = key === "ArrowDown" ? line.nextElementSibling : line.previousElementSibling;
  if (!next) return null;
  const own = [...cell.querySelectorAll("[role=button]")], other = next.children[cell.cellIndex].querySelectorAll("[role=button]");
  return other[Math.min(own.indexOf(from), other.length - 1)];
}

const chosenAt = (event) => event.target.closest && event.target.closest("#text [role=button]");
byId("text").append(...instances.map(section));
byId("text").addEventListener("mouseover", (event) => { const at = chosenAt(event); if (at && !kept) choose(at.found); });
byId("text").addEventListener("focusin", (event) => {
  const at = chosenAt(event);
  if (!at) return;
  at.closest("tbody").querySelectorAll("[tabindex='0']").forEach((one) => { one.tabIndex = -1; });
  at.tabIndex = 0;
  if (!kept) choose(at.found);
});
byId("text").addEventListener("click", (event) => {
  const at = chosenAt(event);
  if (!at) return;
  kept = !(kept && focus === at.found);
  choose(at.found);
});
byId("text").addEventListener("keydown", (event) => {
  const at = chosenAt(event);
  if (!at) return;
  if (event.key.startsWith("Arrow")) {
    const next = step(at, event.key);
    event.preventDefault();
    if (next) next.focus();
  } else if ((event.key === "Enter" || event.key === " ") && at.tagName !== "BUTTON") {
    event.preventDefault();
    at.click();
  }
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape") { kept = false; choose(null); } });
document.querySelector("form").addEventListener("change", () => choose(focus));
document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
fillControls();
