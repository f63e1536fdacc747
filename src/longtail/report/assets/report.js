"use strict";
const byId = (id) => document.getElementById(id);

/* Elements are made with text, never with markup: what users wrote stays text. */
function make(name, className, ...children) {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...children.filter((child) => child !== null));
  return element;
}

/* --- light and dark --- */
const root = document.documentElement;
const themeButton = byId("theme");
function nameThemeButton() {
  const other = root.dataset.theme === "dark" ? "light" : "dark";
  themeButton.textContent = other === "dark" ? "Dark" : "Light";
  themeButton.setAttribute("aria-label", `Switch to the ${other} theme`);
}
themeButton.addEventListener("click", () => {
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("longtail-theme", root.dataset.theme); } catch { /* private window */ }
  nameThemeButton();
});
dark.addEventListener("change", () => { showTheme(); nameThemeButton(); });
nameThemeButton();

/* --- help on hover, focus and tap --- */
const tip = byId("tip");
let tipOwner = null;
function showTip(owner) {
  tipOwner = owner;
  tip.textContent = owner.dataset.help;
  tip.hidden = false;
  const at = owner.getBoundingClientRect();
  const left = Math.min(Math.max(at.left + at.width / 2 - tip.offsetWidth / 2, 8),
    root.clientWidth - tip.offsetWidth - 8);
  const above = at.top - tip.offsetHeight - 8;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 8 ? above : at.bottom + 8}px`;
  if (owner.tagName === "BUTTON") owner.setAttribute("aria-describedby", "tip");
}
function hideTip() {
  tipOwner?.removeAttribute("aria-describedby");
  tipOwner = null;
  tip.hidden = true;
}
const helped = (event) => (event.target instanceof Element ? event.target.closest("[data-help]") : null);
document.addEventListener("pointerover", (event) => {
  const owner = helped(event);
  if (owner) showTip(owner);
  else if (tipOwner && tipOwner !== document.activeElement && event.target !== tip) hideTip();
});
document.addEventListener("focusin", (event) => (helped(event) ? showTip(helped(event)) : hideTip()));
document.addEventListener("click", (event) => (helped(event) ? showTip(helped(event)) : hideTip()));
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
document.addEventListener("scroll", hideTip, { capture: true, passive: true });

/* --- copy the command --- */
const copyButton = byId("copy");
async function copyCommand() {
  const code = byId("command");
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch { // no clipboard without a secure context: select it and let the browser copy
    getSelection().selectAllChildren(code);
    document.execCommand("copy");
  }
  copyButton.textContent = "Copied";
  setTimeout(() => { copyButton.textContent = "Copy"; }, 2000);
}
copyButton.addEventListener("click", copyCommand);

/* --- sort a table by a column: best first, then worst first, then as given --- */
const LOWER_IS_BETTER = new Set(["train", "predict", "memory"]);
document.addEventListener("click", (event) => {
  const button = event.target instanceof Element ? event.target.closest(".sort") : null;
  if (!button) return;
  const header = button.closest("th"), table = button.closest("table"), body = table.tBodies[0];
  const column = Number(button.dataset.column);
  const name = header.querySelector(".help")?.textContent ?? "";
  const down = column === 0 || LOWER_IS_BETTER.has(name) ? "ascending" : "descending";
  const up = down === "ascending" ? "descending" : "ascending";
  const order = { [down]: up, [up]: null }[header.getAttribute("aria-sort")];
  const next = order === undefined ? down : order;
  for (const other of table.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
  if (next) header.setAttribute("aria-sort", next);
  for (const one of table.querySelectorAll(".sort")) one.textContent = "↕";
  button.textContent = { ascending: "↑", descending: "↓" }[next] ?? "↕";
  const given = (row) => Number(row.dataset.recipe);
  const value = (row) => (column === 0 ? row.querySelector(".name").textContent : Number(row.cells[column].dataset.value || NaN));
  const sign = next === "descending" ? -1 : 1;
  const compared = (a, b) => {
    if (!next) return given(a) - given(b);
    const [x, y] = [value(a), value(b)];
    if (column === 0) return sign * x.localeCompare(y) || given(a) - given(b);
    if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
    return sign * (x - y) || given(a) - given(b);
  };
  body.append(...[...body.rows].sort(compared));
});

/* --- what one recipe finds that another does not --- */
const swatchOf = (number) => document.querySelector(`.results tbody tr[data-recipe="${number}"] .swatch`).cloneNode(true);
const versus = byId("versus-data") && JSON.parse(byId("versus-data").textContent);
function wonList(one, other, names) {
  const pair = versus.pairs[`${one}-${other}`];
  const total = pair.bands.reduce((sum, number) => sum + number, 0);
  const parts = pair.bands.map((number, band) => `${number.toLocaleString("en")} ${versus.bands[band]}`);
  const heading = make("h3", "", swatchOf(one), " ", make("bdi", "", names[one]), " finds ",
    make("span", "count", `${total.toLocaleString("en")} ${total === 1 ? "label" : "labels"}: ${parts.join(", ")}`));
  const items = pair.labels.map(([label, hits, row]) => {
    const [text, band] = versus.labels[label];
    const [id, document_] = versus.rows[row];
    const example = make("p", "", make("bdi", "", id), document_ ? ": " : "", document_);
    example.dir = "auto";
    const word_ = make("bdi", "word", text);
    word_.dir = "auto";
    return make("li", "", make("span", "hits", hits === 1 ? "1 hit" : `${hits.toLocaleString("en")} hits`), word_,
      make("span", `tag b${band}`, versus.bands[band]), example);
  });
  return make("div", "won", heading, items.length ? make("ol", "", ...items) : make("p", "note", "Nothing that the other does not find."));
}
const csvCell = (value) => {
  const text = String(value);
  const safe = /^[=+\-@]/.test(text) ? `'${text}` : text; // a spreadsheet must not run it
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};
function versusCsv(names) { // what the lists of all pairs show
  const rows = Object.entries(versus.pairs).flatMap(([pair, found]) => {
    const [one, other] = pair.split("-");
    return found.labels.map(([label, hits, row]) => {
      const [text, band] = versus.labels[label];
      return [names[one], names[other], text, versus.bands[band], hits, versus.rows[row][0]];
    });
  });
  const lines = [["recipe", "not found by", "label", "band", "hits", "document"], ...rows];
  return `data:text/csv;charset=utf-8,${encodeURIComponent(lines.map((line) => `${line.map(csvCell).join(",")}\n`).join(""))}`;
}
function showVersus() {
  const [first, second] = [byId("versus-first"), byId("versus-second")];
  const names = [...first.options].map((option) => option.textContent);
  const [one, other] = [Number(first.value), Number(second.value)];
  byId("versus-lists").replaceChildren(...(one === other
    ? [make("p", "note", "Choose two different recipes.")]
    : [wonList(one, other, names), wonList(other, one, names)]));
}
if (versus) {
  byId("versus-first").value = "0";
  byId("versus-second").value = "1";
  byId("versus-csv").href = versusCsv([...byId("versus-first").options].map((option) => option.textContent));
  byId("versus-controls").addEventListener("change", showVersus);
  byId("versus-controls").addEventListener("submit", (event) => event.preventDefault());
  showVersus();
}

/* --- examples --- */
const data = JSON.parse(byId("examples-data").textContent);
const STEP = innerWidth < 600 ? 5 : 10;
const cards = byId("cards");
const found = byId("found");
const more = byId("more");
const search = byId("search");
const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
const haystacks = data.rows.map((row) => plain([
  row.id, row.text,
  ...row.true.map((label) => data.labels[label][0]),
  ...row.top.flat().map(([label]) => data.labels[label][0]),
].join("\n")));
let matching = [];
let shown = 0;

function bandTag(band) {
  return make("span", `tag b${band}`, data.bands[band]);
}
function word(text) {
  const element = make("bdi", "word", text);
  element.dir = "auto";
  return element;
}
function labelItem(label, hit) {
  const [text, band, count] = data.labels[label];
  const item = make("li", hit ? "hit" : "", make("span", "mark", hit ? "✓" : ""), word(text), bandTag(band));
  if (hit) item.append(make("span", "unseen-text", " hit"));
  item.title = `${count.toLocaleString("en")} training ${count === 1 ? "example" : "examples"}`;
  return item;
}
function recipeColumn(name, number, top) {
  const list = make("ol", "", ...top.map(([label, hit]) => labelItem(label, hit)));
  const swatch = swatchOf(number);
  const hits = top.filter(([, hit]) => hit).length;
  const heading = make("h4", "", swatch, make("bdi", "name", name), make("span", "hits", `${hits} of 5`));
  return make("div", "top", heading, top.length ? list : make("p", "note", "no prediction"));
}
function card(row) {
  const text = make("p", row.text ? "text" : "text note", row.text || "no text, features only");
  text.dir = "auto";
  const hits = new Set(row.top.flat().filter(([, hit]) => hit).map(([label]) => label));
  const truth = make("ul", "chips", ...row.true.map((label) => {
    const chip = make("li", hits.has(label) ? "hit" : "", word(data.labels[label][0]), bandTag(data.labels[label][1]));
    if (hits.has(label)) chip.prepend(make("span", "mark", "✓"));
    return chip;
  }));
  truth.setAttribute("role", "list");
  if (row.more) truth.append(make("li", "note", `and ${row.more} more`));
  const heading = make("h3", "", "Document ", word(row.id));
  const columns = row.top.map((top, number) => recipeColumn(data.recipes[number], number, top));
  return make("article", "card", heading, text,
    make("div", "truth", make("h4", "", "True"), row.true.length ? truth : make("p", "note", "no true label")),
    make("div", "tops", ...columns));
}
function showMore() {
  const next = matching.slice(shown, shown + STEP);
  cards.append(...next.map((index) => card(data.rows[index])));
  shown += next.length;
  more.hidden = shown >= matching.length;
  found.textContent = matching.length
    ? `${matching.length} of ${data.rows.length} examples match, ${shown} shown`
    : data.rows.length ? "No example matches. Try fewer words or another filter." : "There are no examples.";
  found.classList.toggle("empty", !matching.length);
}
function narrow() {
  const filter = document.querySelector("input[name=filter]:checked").value;
  const asked = plain(search.value).split(/\s+/).filter(Boolean);
  matching = [...data.rows.keys()].filter((index) => (filter === "all" || data.rows[index][filter])
    && asked.every((piece) => haystacks[index].includes(piece)));
  cards.replaceChildren();
  shown = 0;
  showMore();
}
byId("controls").addEventListener("input", narrow);
byId("controls").addEventListener("submit", (event) => event.preventDefault());
more.addEventListener("click", () => {
  const before = shown;
  showMore();
  const first = cards.children[before];
  if (first) { first.tabIndex = -1; first.focus({ preventScroll: true }); }
});
narrow();
