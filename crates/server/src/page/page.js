"use strict";

const FIRST_NEIGHBORS = 8; // number of neighbors shown at first
const PAGE_SIZE = 20; // number of documents of a label per page
let model = null;
let last = null; // the explained text
let corrected = null; // the identifier of the last corrected document
let browsing = null;

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

function neighbors(count) {
  const all = last.answer.neighbors;
  $("neighbors-title").textContent = `Documents that voted (${all.length})`;
  $("neighbors").replaceChildren(...all.slice(0, count).map(neighbor));
  $("more").hidden = all.length <= count;
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
  $("labeling-link").hidden = !model.has_pool;
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
    const { figures, intervals } = tuning.cross_validated ?? tuning;
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
  $("curve-caption").textContent = "Micro F1 on held-out documents by number of neighbors";
  $("curve").prepend(chart(points, { title: "Micro F1 by number of neighbors", at: Math.log, name: (k) => `k = ${k}` }));
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
