"use strict";
// Content from texts or the model becomes text nodes, never markup.

const $ = (id) => document.getElementById(id);
const MAX_CHARACTERS = 20000; // maximum number of characters shown of a text
const FIRST_NEIGHBORS = 8; // number of neighbors shown at first
const PAGE_SIZE = 20; // number of documents of a label per page
let model = null;
let last = null; // the explained text
let corrected = null; // the identifier of the last corrected document
let browsing = null;

function make(name, options = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") element.className = value;
    else if (key === "on") element.addEventListener("click", value);
    else element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const number = (value, digits = 3) => value.toFixed(digits);
const percent = (value) => `${(100 * value).toFixed(1)} %`;

function headers(more = {}) {
  const token = $("token").value.trim();
  return token ? { ...more, authorization: `Bearer ${token}` } : more;
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The server does not answer.");
  }
  let body = null;
  try {
    body = await answer.json();
  } catch {
    // A body that is not JSON is reported below by its status.
  }
  if (answer.status === 401) $("token-field").hidden = false;
  if (!answer.ok) {
    const error = new Error(body?.error?.message ?? `The server answered with ${answer.status}.`);
    throw Object.assign(error, { code: body?.error?.code });
  }
  return body;
}

const json = (value) => ({ body: JSON.stringify(value), headers: headers({ "content-type": "application/json" }) });

// ---- Requests ----

async function classify() {
  const text = $("text").value;
  if (!text.trim()) {
    $("message").textContent = "Enter a text first.";
    return;
  }
  $("message").textContent = "";
  $("go").disabled = true;
  try {
    last = { text, answer: await ask("/v1/explain?marks=true", { method: "POST", ...json({ text }) }) };
    show(last.answer);
    $("result").hidden = false;
    $("result-title").focus();
  } catch (error) {
    $("message").textContent = error.message;
  } finally {
    $("go").disabled = false;
  }
}

function show(answer) {
  $("decided").textContent = answer.decided;
  $("scores").replaceChildren(...answer.scores.slice(0, 10).map(score));
  $("terms").replaceChildren(...answer.scores.filter((label) => label.given).slice(0, 3).map(terms));
  $("marked").replaceChildren(...pieces(answer.marked));
  $("unknown").textContent = answer.unknown.length
    ? `Words unknown to the model: ${answer.unknown.slice(0, 30).join(", ")}${answer.unknown.length > 30 ? " …" : ""}` : "";
  neighbors(FIRST_NEIGHBORS);
  $("right").value = answer.labels.join("\n");
}

function score(label) {
  const bar = make("div", { class: "bar", "aria-hidden": "true" });
  const filled = make("span");
  filled.style.width = `${100 * Math.min(1, label.probability ?? label.score)}%`;
  bar.append(filled);
  // A rank rule can have a threshold that no score reaches.
  const threshold = label.threshold >= 0 && label.threshold <= 1 ? label.threshold : null;
  if (threshold !== null && label.probability === null) {
    const at = make("i");
    at.style.left = `${100 * threshold}%`;
    bar.append(at);
  }
  const words = [];
  if (label.probability !== null) words.push(`probability ${percent(label.probability)}`);
  words.push(`${label.prototype ? "score" : "votes"} ${percent(label.score)}`);
  if (threshold !== null) words.push(`threshold ${percent(threshold)}`);
  return make("li", { class: label.given ? "given" : "" }, make("span", { class: "name" }, label.label), bar,
    make("span", { class: "number" }, words.join(", ")));
}

function terms(label) {
  const rows = [];
  for (const [what, parts] of [["supports", label.for], ["opposes", label.against]]) {
    for (const { term, part } of parts.slice(0, 8)) {
      rows.push(make("tr", {}, make("th", { scope: "row" }, term), make("td", {}, what), make("td", {}, number(part))));
    }
  }
  const prototypeTerms = label.prototype ? [["supports, by the prototype", label.prototype.for], ["opposes, by the prototype", label.prototype.against]] : [];
  for (const [what, parts] of prototypeTerms) {
    for (const { term, part } of parts.slice(0, 4)) {
      rows.push(make("tr", {}, make("th", { scope: "row" }, term), make("td", {}, what), make("td", {}, number(part))));
    }
  }
  const head = make("tr", {}, ...["Term", "Effect", "Evidence"].map((name) => make("th", { scope: "col" }, name)));
  return make("details", {}, make("summary", {}, `Evidence for and against ${label.label}`),
    make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
}

function pieces(marked) {
  const strongest = Math.max(1e-12, ...marked.map((piece) => piece.part ?? 0));
  const nodes = [];
  let left = MAX_CHARACTERS;
  for (const piece of marked) {
    if (left <= 0) break;
    const text = piece.text.length > left ? `${piece.text.slice(0, left)} …` : piece.text;
    left -= piece.text.length;
    if (piece.term === undefined) {
      nodes.push(document.createTextNode(text));
      continue;
    }
    const mark = make("mark", { title: `${piece.term}: ${number(piece.part)}` }, text);
    mark.style.setProperty("--share", 0.15 + 0.75 * Math.max(0, piece.part) / strongest);
    mark.dataset.term = piece.term;
    mark.dataset.part = number(piece.part);
    nodes.push(mark);
  }
  return nodes;
}

document.addEventListener("pointerover", (event) => {
  document.querySelectorAll("mark.same").forEach((mark) => mark.classList.remove("same"));
  const mark = event.target.closest?.("mark");
  if (!mark) return;
  const same = [...document.querySelectorAll("mark")].filter((other) => other.dataset.term === mark.dataset.term);
  same.forEach((other) => other.classList.add("same"));
  $("part").textContent = `${mark.dataset.term}: contribution ${mark.dataset.part}, marked ${same.length} times`;
});

function neighbors(count) {
  const all = last.answer.neighbors;
  $("neighbors-title").textContent = `Documents that voted (${all.length})`;
  $("neighbors").replaceChildren(...all.slice(0, count).map(neighbor));
  $("more").hidden = all.length <= count;
}

function neighbor(one) {
  const head = make("div", { class: "head" }, make("strong", {}, one.labels.join(", ") || "no label"),
    make("span", { class: "number" }, `similarity ${number(one.similarity)}, ${percent(one.vote)} of the votes`),
    make("span", { class: "number" }, one.id));
  const words = one.terms.slice(0, 10).filter(({ part }) => part >= 0.0005).map(({ term, part }) => `${term} ${number(part)}`).join(", ");
  const shared = make("div", { class: "words" }, one.by === "vector" ? "Found by dense vector" : words);
  const text = one.marked
    ? make("details", {}, make("summary", {}, "Text"), make("div", { class: "document" }, ...pieces(one.marked))) : null;
  return make("li", {}, head, shared, text);
}

// ---- Corrections ----

function correctionId(text) {
  // Two texts with the same identifier would replace each other, so the identifier has 64 bits:
  // two 32-bit hashes like FNV-1a.
  let [low, high] = [0x811c9dc5, 0x01000193];
  for (let at = 0; at < text.length; at += 1) {
    low = Math.imul(low ^ text.charCodeAt(at), 0x01000193) >>> 0;
    high = Math.imul(high ^ text.charCodeAt(text.length - 1 - at), 0x85ebca6b) >>> 0;
  }
  return `corrected-${low.toString(16).padStart(8, "0")}${high.toString(16).padStart(8, "0")}`;
}

async function learn(event) {
  event.preventDefault();
  const labels = $("right").value.split("\n").map((label) => label.trim()).filter(Boolean);
  const id = correctionId(last.text);
  try {
    const { notes } = await put(id, { text: last.text, labels });
    corrected = id;
    $("undo").disabled = false;
    await refresh([`Learned: ${labels.join(", ") || "no label"}.`, ...notes.map((note) => `Note: ${note}.`)].join(" "));
  } catch (error) {
    $("learned").textContent = error.message;
  }
}

// Puts a document into the model, and asks before it adds a label.
async function put(id, labeled) {
  const path = `/v1/documents/${id}`;
  const request = { method: "PUT", ...json(labeled) };
  try {
    return await ask(path, request);
  } catch (error) {
    if (error.code !== "new-label" || !confirm(`${error.message}\n\nAdd a new label?`)) throw error;
    return ask(`${path}?new-labels=true`, request);
  }
}

async function undo() {
  try {
    await ask(`/v1/documents/${corrected}`, { method: "DELETE", headers: headers() });
    corrected = null;
    $("undo").disabled = true;
    await refresh("Undone.");
  } catch (error) {
    $("learned").textContent = error.message;
  }
}

async function refresh(what) {
  last.answer = await ask("/v1/explain?marks=true", { method: "POST", ...json({ text: last.text }) });
  show(last.answer);
  $("learned").textContent = `${what} Now: ${last.answer.labels.join(", ") || "no label"}.`;
  await open();
}

// ---- Labels and their documents ----

function labels() {
  const wanted = $("find").value.trim().toLowerCase();
  const found = model.labels.filter(({ label }) => label.toLowerCase().includes(wanted)).slice(0, 500);
  $("label-list").replaceChildren(...found.map(({ label, documents }) => make("li", {},
    make("button", { type: "button", on: () => browse(label, 0, true) }, `${label} `,
      make("span", { class: "count" }, String(documents))))));
}

async function browse(label, start, focuses) {
  try {
    const query = new URLSearchParams({ label, start, count: PAGE_SIZE });
    const found = await ask(`/v1/documents?${query}`, { headers: headers() });
    browsing = { label, start, total: found.total };
    $("browse").hidden = false;
    const end = start + found.documents.length;
    $("browse-title").textContent = `${label}: ${found.total ? start + 1 : 0} to ${end} of ${found.total}`;
    $("documents").replaceChildren(...found.documents.map((one) => {
      const others = one.labels.filter((other) => other !== label);
      const text = one.text ? make("div", { class: "words" }, one.text.length > 300 ? `${one.text.slice(0, 300)} …` : one.text) : null;
      return make("li", {}, make("strong", {}, one.id), others.length ? ` also ${others.join(", ")}` : null, text);
    }));
    $("before").disabled = start === 0;
    $("after").disabled = end >= found.total;
    if (focuses) $("browse-title").focus();
  } catch (error) {
    $("message").textContent = error.message;
  }
}

// ---- Description of the model ----

async function open() {
  try {
    model = await ask("/v1/model", { headers: headers() });
  } catch (error) {
    $("about").textContent = error.message;
    return;
  }
  const { settings } = model;
  $("about").textContent = `${settings.counts.documents.toLocaleString("en")} documents, ${model.labels.length} labels`;
  $("correction").hidden = !model.writable;
  $("token-field").hidden = !model.writable;
  $("all-labels").replaceChildren(...model.labels.slice(0, 2000).map(({ label }) => make("option", { value: label })));
  labels();
  const tuning = settings.tuning;
  const facts = [
    ["Trained by", settings.created_by],
    ["Documents", `${settings.counts.documents}, ${settings.counts.unlabeled} without a label`],
    ["Terms", String(settings.counts.terms)],
    ["Weights", settings.formula],
    ["Neighbors", `${settings.k}, vote ${settings.vote}`],
    ["Decision", settings.decision.mode],
  ];
  if (tuning) {
    const { figures, intervals } = tuning;
    const with_interval = (key) => intervals
      ? `${number(figures[key])} (${intervals[key].map((end) => number(end)).join(" to ")})` : number(figures[key]);
    facts.push(["Tuned for", `${tuning.objective}, on ${tuning.documents} held-out documents`]);
    facts.push(["Micro F1", with_interval("micro_f1")], ["Macro F1", with_interval("macro_f1")], ["Accuracy", with_interval("accuracy")]);
  } else {
    facts.push(["Metrics", "none: the model was not tuned"]);
  }
  const { updates } = settings;
  if (updates && updates.added + updates.removed + updates.relabeled > 0) {
    facts.push(["Changes since training", `${updates.added} documents added, ${updates.removed} removed, ${updates.relabeled} relabeled; the tuned settings predate them`]);
  }
  facts.push(["Version", model.version]);
  $("card").replaceChildren(...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  curve(tuning);
}

function curve(tuning) {
  const points = (tuning?.by_k ?? []).map(([k, figures]) => [k, figures.micro_f1]).sort((a, b) => a[0] - b[0]);
  $("curve").hidden = points.length < 2;
  $("curve").querySelector("svg")?.remove();
  if (points.length < 2) return;
  const [width, height, edge] = [320, 160, 34];
  const lowest = Math.min(...points.map((point) => point[1]));
  const highest = Math.max(...points.map((point) => point[1]));
  const ends = [Math.log(points[0][0]), Math.log(points.at(-1)[0])];
  const x = (k) => edge + (width - edge - 10) * (Math.log(k) - ends[0]) / (ends[1] - ends[0] || 1);
  const y = (value) => height - 24 - (height - 36) * (value - lowest) / (highest - lowest || 1);
  const svg = (name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.append(text);
    return element;
  };
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Micro F1 by number of neighbors, from ${number(lowest)} to ${number(highest)}` });
  root.append(svg("line", { class: "axis", x1: edge, y1: height - 20, x2: width - 6, y2: height - 20 }));
  root.append(svg("polyline", { class: "line", points: points.map(([k, value]) => `${x(k)},${y(value)}`).join(" ") }));
  points.forEach(([k, value]) => root.append(svg("circle", { class: "dot", cx: x(k), cy: y(value), r: 3 })));
  for (const at of [0, points.length - 1]) {
    root.append(svg("text", { x: x(points[at][0]), y: height - 6, "text-anchor": at ? "end" : "start" }, `k = ${points[at][0]}`));
  }
  root.append(svg("text", { x: 0, y: y(highest) + 4 }, number(highest)), svg("text", { x: 0, y: y(lowest) + 4 }, number(lowest)));
  $("curve-caption").textContent = "Micro F1 on held-out documents by number of neighbors";
  $("curve").prepend(root);
}

// ---- Events ----

function size() {
  const count = $("text").value.length;
  $("size").textContent = count ? `${count.toLocaleString("en")} characters` : "";
}

async function load(file) {
  if (file) {
    $("text").value = await file.text();
    size();
    await classify();
  }
}

$("form").addEventListener("submit", (event) => { event.preventDefault(); classify(); });
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); classify(); }
});
$("text").addEventListener("input", size);
$("text").addEventListener("dragover", (event) => { event.preventDefault(); $("text").classList.add("over"); });
$("text").addEventListener("dragleave", () => $("text").classList.remove("over"));
$("text").addEventListener("drop", (event) => {
  $("text").classList.remove("over");
  if (event.dataTransfer.files.length) { event.preventDefault(); load(event.dataTransfer.files[0]); }
});
$("correct").addEventListener("submit", learn);
$("undo").addEventListener("click", undo);
$("pick").addEventListener("change", () => {
  const label = $("pick").value.trim();
  if (label) { $("right").value = [...$("right").value.split("\n").filter(Boolean), label].join("\n"); $("pick").value = ""; }
});
$("token").addEventListener("change", open);
$("more").addEventListener("click", () => neighbors(Infinity));
$("find").addEventListener("input", labels);
$("before").addEventListener("click", () => browse(browsing.label, Math.max(0, browsing.start - PAGE_SIZE)));
$("after").addEventListener("click", () => browse(browsing.label, browsing.start + PAGE_SIZE));
open();
