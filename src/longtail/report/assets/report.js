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
  item.title = `${count.toLocaleString("en")} training ${count === 1 ? "row" : "rows"}`;
  return item;
}
function recipeColumn(name, number, top) {
  const list = make("ol", "", ...top.map(([label, hit]) => labelItem(label, hit)));
  const swatch = document.querySelector(`.results tbody tr:nth-child(${number + 1}) .swatch`).cloneNode(true);
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
  const heading = make("h3", "", "Row ", word(row.id));
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
