"use strict";
// The page of `longtail serve`. Texts go to this service only. Everything is shown as text, never as markup.

const PIECE = 64; // the most lines of a request
const MAX_LENGTH = 1_000_000; // the most characters of a request
const SHOWN = 200; // the most lines in the table; the file has all
const PAUSE = 140; // milliseconds without a key before a text is sent
const EXAMPLES = 3;
const BANDS = { head: "head", torso: "torso", tail: "tail", unseen: "unseen" };

// ---- theme: before anything is drawn

function stored(place, name, value) {
  try {
    if (value === undefined) return place.getItem(name);
    place.setItem(name, value);
  } catch { /* without storage nothing is remembered */ }
  return null;
}
const dark = matchMedia("(prefers-color-scheme: dark)");
let chosen = stored(localStorage, "longtail-theme");
const theme = () => chosen ?? (dark.matches ? "dark" : "light");
if (chosen) document.documentElement.dataset.theme = chosen;

// ---- small helpers

const find = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const plural = (count, one, many) => `${number.format(count)} ${count === 1 ? one : many}`;
const score = (value) => (value >= 100 ? value.toFixed(0) : value >= 0.0995 ? value.toPrecision(3) : value.toPrecision(2));

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  Object.assign(element, properties);
  element.append(...children.filter((child) => child !== null));
  return element;
}
const bdi = (text) => make("bdi", {}, text);
const sleep = (milliseconds) => new Promise((wake) => setTimeout(wake, milliseconds));

// ---- requests to the service

class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

/** JSON from a path; waits and tries again while the service is busy. */
async function ask(path, body, signal) {
  const headers = {};
  const token = stored(sessionStorage, "longtail-token");
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  for (let attempt = 0; ; attempt += 1) {
    let reply;
    try {
      reply = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal, cache: "no-store" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused(0, "The service cannot be reached; is it still running?");
    }
    if (reply.ok) { trouble(""); return reply.json(); }
    const wait = Number(reply.headers.get("Retry-After"));
    if ((reply.status === 429 || reply.status === 503) && wait && attempt < 5) {
      trouble(`The service is busy; trying again in ${plural(wait, "second", "seconds")}.`);
      await sleep(1000 * wait);
      if (signal?.aborted) throw new DOMException("", "AbortError");
      continue;
    }
    if (reply.status === 401) find("door").hidden = false;
    const answer = await reply.json().catch(() => ({}));
    throw new Refused(reply.status, answer.error ?? `The service answered ${reply.status}.`);
  }
}

function trouble(message) {
  find("trouble").textContent = message;
  find("trouble").hidden = !message;
}
const unlessAborted = (error) => { if (error.name !== "AbortError") trouble(error.message); };

// ---- the models

let models = [];
let examples = null;

async function loadModels() {
  const answer = await ask("models");
  models = answer.models;
  examples = answer.examples;
  const size = models.map((model) => `${model.name}: ${plural(model.labels, "label", "labels")}`).join(" · ");
  find("served").textContent = size + (examples ? ` · training examples from ${examples}` : "");
  const before = [find("first").value, find("second").value];
  const options = () => models.map((model) => make("option", { value: model.name }, model.name));
  find("first").replaceChildren(...options());
  find("second").replaceChildren(make("option", { value: "" }, "none"), ...options());
  find("beside").hidden = models.length < 2;
  if (models.some((model) => model.name === before[0])) find("first").value = before[0];
  if (before[0]) find("second").value = before[1];
  else if (models.length > 1) find("second").value = models[1].name;
  showWhetherLabelsCanBeAdded();
  showWhetherTheDialTurns();
}

/** The content of a field, without the control characters that pasted pages may have and the service refuses. */
const typed = (name) => find(name).value.replace(/[\x00-\x08\x0e-\x1f\x7f]/g, " ");
const named = (name) => models.find((model) => model.name === name);
/** The models that are selected: one, or two side by side. */
function selected() {
  const names = [find("first").value, find("second").value];
  return [...new Set(names)].filter(Boolean);
}
/** The dial of a request; 0 for a model whose scores are not probabilities. */
const dial = (name) => (named(name).probabilities ? Number(find("dial").value) : 0);

function showWhetherTheDialTurns() {
  const names = selected();
  const without = names.filter((name) => !named(name).probabilities);
  const able = without.length < names.length;
  find("dial").disabled = !able;
  const why = without.length ? `No dial for ${without.join(" and ")}: its scores are not probabilities; + calibrate makes them so.` : "";
  find("dial-why").textContent = why;
  find("turning").title = why || "Ranks by probability × (inverse propensity)^dial: to the right, rare labels rise. Scores stay probabilities.";
  const value = able ? find("dial").value : "0";
  find("dial-value").textContent = value;
  find("dial").setAttribute("aria-valuetext", value === "0" ? "0, by probability alone" : `${value}, ${value === "1" ? "rare labels most" : "towards rare labels"}`);
}
const takers = () => selected().filter((name) => named(name).takes_labels);

function showWhetherLabelsCanBeAdded() {
  const able = takers().length > 0;
  find("new").disabled = !able;
  find("adding").querySelector("button").disabled = !able;
  const reasons = selected().map((name) => `${name} takes no new labels: ${named(name).why_not}`);
  find("added").textContent = able ? "" : reasons.join("; ") + ".";
}

// ---- one text

let request = null;
const opened = new Set(); // labels whose examples are unfolded
let newest = new Set(); // labels that were just added

async function predictText() {
  request?.abort();
  request = new AbortController();
  const { signal } = request;
  const text = typed("text");
  if (!text.trim()) {
    find("columns").replaceChildren();
    find("summary").textContent = "";
    return [];
  }
  const k = Number(find("k").value);
  const started = performance.now();
  const answers = await Promise.all(selected().map((model) => ask("predict", { text, k, model, dial: dial(model), why: true }, signal)));
  const took = Math.round(performance.now() - started);
  show(answers, took);
  if (examples) {
    const labels = [...new Set(answers.flatMap((answer) => answer.answers[0].labels.map((label) => label.id)))];
    if (labels.length) {
      const answer = await ask("examples", { text, labels: labels.slice(0, 100), limit: EXAMPLES }, signal);
      explain(answer.examples, text);
    }
  }
  return answers;
}

function show(answers, took) {
  const sets = answers.map((answer) => new Set(answer.answers[0].labels.map((label) => label.id)));
  find("columns").style.setProperty("--columns", answers.length);
  find("columns").replaceChildren(...answers.map((answer, place) => column(answer, sets.length > 1 ? sets[1 - place] : null)));
  const first = answers[0].answers[0].labels[0];
  let summary = first ? `${answers[0].model} predicts “${first.text}” first` : "No label scores above 0";
  const unsure = answers.filter((answer) => answer.answers[0].unsure).map((answer) => answer.model);
  if (unsure.length) summary += `; unsure: ${unsure.join(", ")}`;
  if (sets.length > 1) {
    const only = sets.map((set, place) => [...set].filter((id) => !sets[1 - place].has(id)).length);
    summary += `; ${only[0]} only by ${answers[0].model}, ${only[1]} only by ${answers[1].model}`;
  }
  find("summary").textContent = `${summary} · ${took} ms`;
}

function column(answer, others) {
  const model = named(answer.model);
  const labels = answer.answers[0].labels;
  const highest = Math.max(1e-30, ...labels.map((label) => label.score));
  const full = highest <= 1 && model.recipe.split("(")[0] !== "bm25" ? 1 : highest; // a full bar: probability 1
  const list = make("ol", { className: "found" }, ...labels.map((label) => row(label, label.score / full, others)));
  const fixed = Number(find("dial").value) && !model.probabilities ? " · not turned by the dial" : null;
  const section = make("section", {}, make("h2", {}, bdi(model.name), make("small", {}, bdi(model.recipe), fixed)),
    answer.answers[0].unsure ? make("p", { className: "notice unsure" }, "Unsure: ", answer.answers[0].unsure) : null, list);
  section.setAttribute("aria-label", `Labels from ${model.name}`);
  return section;
}

function row(label, share, others) {
  const only = others !== null && !others.has(label.id);
  const line = make("div", { className: "label" },
    make("span", {}, make("span", { className: "word" }, bdi(label.text)),
      only ? make("span", { className: "tag only" }, "only here") : null,
      label.added ? make("span", { className: "tag fresh" }, "added") : null),
    make("span", { className: "facts" }, band(label), ` ${count(label)}`,
      make("span", { className: "score" }, make("span", { className: "apart" }, "score "), score(label.score))));
  const item = make("li", { className: newest.has(label.id) ? "new" : "" }, line, meter(share), proposers(label));
  item.dataset.id = label.id;
  item.dataset.examples = label.count;
  return item;
}

/** Who proposed a label, at which place, how often that was right, and what the model remembers; null where nothing is known. */
function proposers({ id, why }) {
  if (!why?.members && !why?.nearest && !why?.words) return null;
  const members = why.members ?? [];
  const able = members.filter((one) => one.place !== null).length;
  const record = why.proposed ? `right in ${why.right} of ${why.proposed} held-out examples for which it was proposed` : null;
  const key = `proposed ${id}`;
  const box = make("details", { className: "proposed", open: opened.has(key) },
    make("summary", {}, members.length ? `proposed by ${able} of ${plural(members.length, "member", "members")}` : why.words ? `looked at ${why.words.slice(0, 3).map((one) => one.word).join(", ")}` : "nearest examples the model remembers"),
    make("ul", {},
      ...members.map((one) => make("li", {}, bdi(one.member), one.place === null ? ": not proposed" : `: place ${one.place}, its score ${score(one.score)}`)),
      record && make("li", {}, record),
      ...(why.words ?? []).map((one) => make("li", {}, bdi(one.word), make("small", {}, ` ${Math.round(100 * one.weight)}% of its attention`))),
      ...(why.nearest ?? []).map((one) => make("li", {}, bdi(one.text), make("small", {}, ` similarity ${one.similarity.toFixed(2)} · document `, bdi(one.id))))));
  box.addEventListener("toggle", () => opened[box.open ? "add" : "delete"](key));
  return box;
}

const band = (label) => make("b", { className: `tag ${BANDS[label.band]}` }, label.band);
const count = (label) => (label.count ? plural(label.count, "example", "examples") : "no example");

/** A bar as SVG: its width is an attribute, because the page's policy forbids inline styles. */
function meter(share) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("class", "meter");
  picture.setAttribute("aria-hidden", "true");
  const bar = document.createElementNS(space, "rect");
  bar.setAttribute("width", `${Math.min(100, Math.max(0.5, 100 * share))}%`);
  bar.setAttribute("height", "100%");
  picture.append(bar);
  return picture;
}

/** Puts the most similar training texts under each label. */
function explain(found, text) {
  const words = new Set(wordsOf(text));
  for (const item of find("columns").querySelectorAll("li[data-id]")) {
    item.querySelector(".why")?.remove();
    const near = found[item.dataset.id] ?? [];
    if (!near.length) {
      const reason = item.dataset.examples === "0" ? "no training example; found by its text alone" : "no similar training example";
      item.append(make("p", { className: "why" }, reason));
      continue;
    }
    const why = make("details", { className: "why", open: opened.has(item.dataset.id) },
      make("summary", {}, "similar example: ", make("span", { className: "glimpse" }, ...marked(near[0].text, words))),
      make("ul", {}, ...near.map((one) => make("li", {}, ...marked(one.text, words),
        make("small", {}, ` similarity ${one.similarity.toFixed(2)} · document `, bdi(one.id))))));
    why.addEventListener("toggle", () => opened[why.open ? "add" : "delete"](item.dataset.id));
    item.append(why);
  }
}

const wordsOf = (text) => (text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).filter((word) => word.length > 3);

/** A text in which the words that both texts have are marked. */
function marked(text, words) {
  return text.split(/([\p{L}\p{N}]+)/u).map((part) => (words.has(part.toLowerCase()) ? make("mark", {}, part) : part));
}

async function addLabel(event) {
  event.preventDefault();
  const text = typed("new").trim();
  const able = takers();
  if (!text || !able.length) return;
  try {
    const added = await Promise.all(able.map((model) => ask("labels", { labels: [{ text }], model })));
    await loadModels();
    newest = new Set([text]);
    if (!find("text").value.trim()) find("text").value = text;
    const answers = await predictText();
    const places = answers.filter((answer) => able.includes(answer.model)).map((answer) => {
      const place = answer.answers[0].labels.findIndex((label) => label.id === text);
      return place < 0 ? `not among the first ${find("k").value} of ${answer.model}` : `number ${place + 1} of ${answer.model}`;
    });
    const known = added.every((one) => one.known.length);
    find("added").textContent = `“${text}” ${known ? "was there already" : "is added and saved"}: ${places.join(", ")} for the text above.`;
    find("new").value = "";
  } catch (error) { unlessAborted(error); }
}

// ---- many lines

let table = []; // {line, text, found: an answer of each model}

async function predictLines() {
  const texts = typed("lines").split(/\r?\n/).map((text) => text.trim()).filter(Boolean);
  const names = selected();
  const k = Number(find("k").value);
  const turned = Object.fromEntries(names.map((name) => [name, dial(name)])); // as it stands now, for all lines
  if (!texts.length) { find("done").textContent = "There is no text in any line."; return; }
  find("run").disabled = true;
  find("download").disabled = true;
  find("progress").hidden = false;
  table = [];
  try {
    for (let start = 0; start < texts.length; start = table.length) {
      const piece = [texts[start]];
      for (let size = texts[start].length; piece.length < PIECE && start + piece.length < texts.length; ) {
        size += texts[start + piece.length].length;
        if (size > MAX_LENGTH) break;
        piece.push(texts[start + piece.length]);
      }
      const answers = await Promise.all(names.map((model) => ask("predict", { texts: piece, k, model, dial: turned[model] })));
      piece.forEach((text, place) => table.push({ line: start + place + 1, text, found: answers.map((answer) => answer.answers[place]) }));
      find("progress").value = table.length / texts.length;
      find("done").textContent = `${number.format(table.length)} of ${plural(texts.length, "line", "lines")}`;
    }
    showTable(names);
    find("download").disabled = false;
    find("download").onclick = () => save(names);
    find("done").textContent = `${plural(table.length, "line", "lines")} done` + (table.length > SHOWN ? `; the first ${SHOWN} are shown, the file has all` : "");
  } catch (error) { unlessAborted(error); }
  find("run").disabled = false;
  find("progress").hidden = true;
}

function showTable(names) {
  const [head, body] = [find("table").tHead, find("table").tBodies[0]];
  head.replaceChildren(make("tr", {}, ...["text", ...names].map((name) => make("th", { scope: "col" }, bdi(name)))));
  body.replaceChildren(...table.slice(0, SHOWN).map((one) => make("tr", {},
    make("th", { scope: "row" }, bdi(one.text.length > 160 ? `${one.text.slice(0, 160)} …` : one.text)),
    ...one.found.map(({ labels, unsure }) => make("td", {}, unsure ? make("p", { className: "quiet unsure" }, "Unsure: ", unsure) : null,
      make("ul", {}, ...labels.map((label) => make("li", {}, bdi(label.text), " ",
        label.band === "tail" || label.band === "unseen" ? band(label) : null))))))));
  find("table").parentElement.hidden = false;
}

/** A cell in quotes; an apostrophe is put before text that a spreadsheet would run as a formula. */
function cell(value) {
  const text = String(value);
  return `"${(typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
}

function save(names) {
  const lines = [["line", "text", "model", "place", "id", "label", "score", "training examples", "band", "unsure"]];
  for (const one of table) {
    one.found.forEach(({ labels, unsure = "" }, which) => {
      if (!labels.length && unsure) lines.push([one.line, one.text, names[which], "", "", "", "", "", "", unsure]);
      labels.forEach((label, place) => lines.push(
        [one.line, one.text, names[which], place + 1, label.id, label.text, label.score, label.count, label.band, unsure]));
    });
  }
  // By the byte order mark spreadsheets know that the file is UTF-8.
  const content = "\ufeff" + lines.map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
  const address = URL.createObjectURL(new Blob([content], { type: "text/csv" }));
  const link = make("a", { href: address, download: "longtail.csv" });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// ---- labels

let searching = null;

async function search(more = false) {
  searching?.abort();
  searching = new AbortController();
  const list = find("list");
  const offset = more ? list.children.length : 0;
  const query = new URLSearchParams({ query: find("query").value, model: find("first").value, limit: 50, offset });
  const page = await ask(`labels?${query}`, null, searching.signal);
  const items = page.labels.map((label) => make("li", {},
    make("span", {}, bdi(label.text), label.id === label.text ? null : make("small", {}, bdi(label.id)),
      label.added ? make("span", { className: "tag fresh" }, "added") : null),
    make("span", { className: "facts" }, band(label), ` ${count(label)}`)));
  if (more) list.append(...items);
  else list.replaceChildren(...items);
  find("matches").textContent = `${plural(page.total, "label", "labels")} of ${page.model}`;
  find("more").hidden = list.children.length >= page.total;
}

// ---- putting it together

function select(tab) {
  for (const one of document.querySelectorAll("[role=tab]")) {
    const mine = one === tab;
    one.setAttribute("aria-selected", mine);
    one.tabIndex = mine ? 0 : -1;
    find(one.getAttribute("aria-controls")).hidden = !mine;
  }
  tab.focus();
  if (tab.id === "tab-labels") search().catch(unlessAborted);
  if (tab.id === "tab-one") predictText().catch(unlessAborted);
}

function turn(event) {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const step = { ArrowRight: 1, ArrowLeft: -1, Home: -tabs.indexOf(event.target), End: tabs.length - 1 - tabs.indexOf(event.target) }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  select(tabs[(tabs.indexOf(event.target) + step + tabs.length) % tabs.length]);
}

function nameTheme() {
  const other = theme() === "dark" ? "light" : "dark";
  find("theme").textContent = other === "dark" ? "Dark" : "Light";
  find("theme").setAttribute("aria-label", `Switch to the ${other} theme`);
}

/** Runs the work after a pause, so that a word is not sent letter by letter. */
function later(work) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(() => work().catch(unlessAborted), PAUSE);
  };
}

async function begin() {
  try {
    await loadModels();
    find("door").hidden = true;
    await predictText();
  } catch (error) { unlessAborted(error); }
}

document.addEventListener("DOMContentLoaded", () => {
  nameTheme();
  dark.addEventListener("change", nameTheme);
  find("theme").addEventListener("click", () => {
    chosen = theme() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = chosen;
    stored(localStorage, "longtail-theme", chosen);
    nameTheme();
  });
  find("door").addEventListener("submit", (event) => {
    event.preventDefault();
    stored(sessionStorage, "longtail-token", find("token").value);
    find("token").value = "";
    begin();
  });
  for (const tab of document.querySelectorAll("[role=tab]")) {
    tab.addEventListener("click", () => select(tab));
    tab.addEventListener("keydown", turn);
  }
  const soon = later(() => { newest = new Set(); return predictText(); });
  find("text").addEventListener("input", soon);
  for (const choice of ["first", "second", "k"]) {
    find(choice).addEventListener("change", () => {
      showWhetherLabelsCanBeAdded();
      showWhetherTheDialTurns();
      if (!find("labels").hidden) search().catch(unlessAborted);
      else if (!find("one").hidden) predictText().catch(unlessAborted);
    });
  }
  const redial = later(predictText);
  find("dial").addEventListener("input", () => {
    showWhetherTheDialTurns();
    if (!find("one").hidden) redial();
  });
  find("adding").addEventListener("submit", addLabel);
  find("run").addEventListener("click", predictLines);
  find("lines").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !find("run").disabled) predictLines();
  });
  find("query").addEventListener("input", later(search));
  find("more").addEventListener("click", () => search(true).catch(unlessAborted));
  begin();
});
