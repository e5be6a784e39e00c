"use strict";

const KEYS = 9; // number of choices that have a key
const FIRST_NEIGHBORS = 5; // number of similar documents shown
const PAUSE = 250; // milliseconds after a document appears in which keys decide nothing
const FOUND = 50; // number of documents that a search returns
const TABS = ["label", "review", "find", "progress"];
const client = sessionStorage.getItem("client") ?? crypto.getRandomValues(new Uint32Array(3)).join("-");
sessionStorage.setItem("client", client);
let model = null;
let isMulti = false;
let shown = null; // the document to label
let chosen = new Set(); // its labels, if it can have several
let finding = null; // what is to be reviewed
let found = []; // the documents that were found
let decisions = null; // the decisions of the preview
let waiting = null; // the request that comes after the one that is running
let shownAt = 0; // when the document appeared

const me = () => ({ client, reviewer: $("reviewer").value.trim() });
const names = (labels) => (labels?.length ? labels.join(", ") : "no label");
const tab = () => TABS.find((name) => $(`${name}-tab`).getAttribute("aria-selected") === "true");
const short = (text, length = 400) => (text.length > length ? `${text.slice(0, length)} …` : text);

// Runs one request at a time. While one is running, the last request that `waits` comes next, and
// others are dropped.
async function alone(run, waits = false) {
  const page = document.querySelector("main");
  if (page.ariaBusy === "true") {
    if (waits) waiting = run;
    return;
  }
  page.ariaBusy = "true";
  $("message").textContent = "";
  try {
    await run();
  } catch (error) {
    $("message").textContent = error.message;
    // The document is not what was shown.
    if (error.code === "decided") await load().catch(() => {});
  } finally {
    page.ariaBusy = "false";
  }
  const next_ = waiting;
  waiting = null;
  if (next_) await alone(next_);
}

const post = (path, body) => ask(path, { method: "POST", ...json(body) });

// Sends decisions, and asks before it adds a label to the model.
async function send(all) {
  const path = "/v1/labeling/decisions";
  const body = { ...me(), decisions: all };
  let report;
  try {
    report = await post(path, body);
  } catch (error) {
    if (error.code !== "new-label") throw error;
    const message = error.message.split("; to add a new label")[0];
    if (!confirm(`${message}\n\nAdd a new label?`)) return false;
    report = await post(`${path}?new-labels=true`, body);
    await labels();
  }
  progress(report.progress);
  $("said").textContent = report.notes.map((note) => `Note: ${note}.`).join(" ");
  return true;
}

async function undo() {
  const { ids, progress: now } = await post("/v1/labeling/undo", me());
  progress(now);
  await load();
  $("said").textContent = `Undone: ${ids.length === 1 ? ids[0] : `${ids.length} documents`}.`;
}

// ---- Choices ----

function choice(at, content, run, pressed) {
  const key = at < KEYS ? make("kbd", {}, String(at + 1)) : null;
  const options = { type: "button", on: () => alone(run) };
  if (pressed !== undefined) options["aria-pressed"] = String(pressed);
  return make("li", {}, make("button", options, key, ...content));
}

// ---- Label ----

async function next() {
  const answer = await post("/v1/labeling/next", me());
  progress(answer.progress);
  shown = answer.document && { ...answer, chosen: [] };
  chosen = new Set();
  shownAt = performance.now();
  $("label-item").hidden = !shown;
  $("label-empty").hidden = Boolean(shown);
  $("label-empty").textContent = "There is nothing to label: every document is labeled, skipped, or shown to somebody else.";
  if (!shown) return;
  $("label-id").textContent = answer.document.id;
  $("reason").textContent = why(answer);
  $("marked").replaceChildren(...(answer.explanation?.marked ? pieces(answer.explanation.marked) : [short(answer.document.text, MAX_CHARACTERS)]));
  $("part").textContent = "";
  const neighborList = answer.explanation?.neighbors ?? [];
  $("neighbors-title").hidden = neighborList.length === 0;
  $("neighbors").replaceChildren(...neighborList.slice(0, FIRST_NEIGHBORS).map(neighbor));
  if (isMulti) chosen = new Set(answer.explanation?.labels ?? []);
  $("save").hidden = !isMulti;
  choices();
}

function why({ reason: { kind, labels: two }, uncertainty }) {
  if (uncertainty === 0) return "the model is certain of this document and all that are left";
  if (kind === "undecided") return `the model hesitates between ${two[0]} and ${two[1]}`;
  if (kind === "perhaps") return `the model is unsure of ${two}`;
  return "no labeled document is similar";
}

function choices() {
  const scored = (shown.explanation?.scores ?? []).slice(0, KEYS);
  const scores = new Map(scored.map((one) => [one.label, one.probability ?? one.score]));
  // The best labels, then the most frequent ones, as far as there are keys.
  const offered = [...new Set([...scores.keys(), ...model.labels.map(({ label }) => label)])].slice(0, KEYS);
  const all = new Set([...offered, ...chosen]);
  $("choices").replaceChildren(...[...all].map((label, at) => {
    const share = scores.has(label) ? make("span", { class: "number" }, percent(scores.get(label))) : null;
    return choice(at, [` ${label} `, share], () => pick(label), isMulti ? chosen.has(label) : undefined);
  }));
}

async function pick(label) {
  if (isMulti) {
    if (!chosen.delete(label)) chosen.add(label);
    choices();
    return;
  }
  await decide({ decision: "label", labels: [label] });
}

async function decide(decision) {
  if (!await send([{ id: shown.document.id, seen: [], ...decision }])) return;
  await next();
  $("marked").focus();
}

const save = () => decide({ decision: "label", labels: [...chosen] });

// ---- Review ----

async function review() {
  const answer = await post("/v1/labeling/review", me());
  progress(answer.progress);
  finding = answer.finding && answer;
  shownAt = performance.now();
  $("review-item").hidden = !finding;
  $("review-empty").hidden = Boolean(finding);
  const { is_checking: isChecking, why_not: whyNot, found: count } = answer.progress.review;
  $("review-empty").textContent = isChecking ? "The labels are being checked …"
    : whyNot ? `The labels cannot be reviewed: ${whyNot}.`
      : count ? "Everything is reviewed, or shown to somebody else." : "Nothing suspicious was found.";
  if (isChecking && tab() === "review") setTimeout(() => { if (tab() === "review") alone(review, true); }, 1000);
  if (finding) reviewed(answer);
}

function reviewed({ finding: what, documents }) {
  const own = documents.slice(0, what.kind === "copies" ? documents.length : 1);
  const others = documents.slice(own.length);
  $("finding").textContent = headline(what);
  $("reviewed").replaceChildren(...own.map(document_));
  $("contradictions").replaceChildren(...others.map(document_));
  $("against").hidden = others.length === 0;
  $("review-form").hidden = what.kind === "copies" && isMulti;
  $("review-choices").replaceChildren(...reviewChoices(what, own).map(([content, all], at) => choice(at, [` ${content}`], () => resolve(all))));
}

function headline(what) {
  if (what.kind === "copies") return what.identical ? "The same text several times" : "Almost the same text";
  const share = percent(what.probability);
  if (what.given === null) return `Is ${what.suggested} missing? (${share})`;
  return what.suggested === null ? `Is ${what.given} superfluous? (${share})` : `${what.given}, or rather ${what.suggested}? (${share})`;
}

function document_(one) {
  return make("li", {}, make("div", { class: "head" }, make("strong", {}, names(one.labels)), make("span", { class: "number" }, one.id)),
    make("div", { class: "document", tabindex: "0", role: "region", "aria-label": `Text of ${one.id}` }, short(one.text, MAX_CHARACTERS)));
}

// Returns what can be decided: a text, and the decisions.
function reviewChoices(what, documents) {
  const as = (decision) => (one) => ({ id: one.id, seen: one.labels, ...decision });
  const keep = [documents.length === 1 ? "It is right" : "They are right as they are", documents.map(as({ decision: "keep" }))];
  if (what.kind === "copies") {
    const sets = new Map(documents.map((one) => [JSON.stringify(one.labels), one.labels]));
    const same = sets.size < 2 ? [] : [...sets.values()].map((labelSet) => [`All get ${names(labelSet)}`, documents.map(as({ decision: "label", labels: labelSet }))]);
    const rest = documents.slice(1).map(as({ decision: "remove" }));
    return [keep, ...same, ["Remove all but the first", rest]];
  }
  const [one] = documents;
  const changed = one.labels.filter((label) => label !== what.given);
  if (what.suggested !== null && !changed.includes(what.suggested)) changed.push(what.suggested);
  const change = what.given === null ? `Add ${what.suggested}` : what.suggested === null ? `Remove ${what.given}` : `Change to ${what.suggested}`;
  return [keep, [change, [as({ decision: "label", labels: changed })(one)]], ["Remove the document", [as({ decision: "remove" })(one)]]];
}

async function resolve(all) {
  if (!await send(all)) return;
  await review();
  $("review-panel").focus();
}

const skipFinding = () => resolve(finding.documents.slice(0, finding.finding.kind === "copies" ? undefined : 1)
  .map((one) => ({ id: one.id, decision: "skip" })));

async function reviewOther(label) {
  const { finding: what, documents } = finding;
  const own = documents.slice(0, what.kind === "copies" ? undefined : 1);
  const of = (one) => (isMulti ? [...one.labels.filter((old) => old !== what.given && old !== label), label] : [label]);
  await resolve(own.map((one) => ({ id: one.id, seen: one.labels, decision: "label", labels: of(one) })));
}

// ---- Find ----

async function find(query) {
  const answer = await ask(`/v1/labeling/search?${new URLSearchParams({ ...query, count: FOUND })}`, { headers: headers() });
  found = answer.documents;
  $("found").hidden = false;
  $("preview").hidden = true;
  $("all").checked = false;
  const what = query.similar ? `similar to ${query.similar}` : query.label ? `that may have the label ${query.label}` : "similar to the text";
  $("found-title").textContent = `${found.length} documents ${what}`;
  $("bulk-label").value = query.label ?? $("bulk-label").value;
  $("found-list").replaceChildren(...found.map((one, at) => make("li", {},
    make("label", { class: "check" }, make("input", { type: "checkbox", "data-at": String(at) }),
      make("strong", {}, ` ${one.id} `), make("span", { class: "number" }, number(one.similarity)),
      make("span", { class: "now" }, one.labels ? ` ${names(one.labels)}` : "")),
    make("div", { class: "words" }, short(one.text)),
    make("button", { type: "button", on: () => alone(() => find({ similar: one.id })) }, "Similar"))));
  $("found-title").focus();
}

function preview() {
  const label = $("bulk-label").value.trim();
  const selected = [...document.querySelectorAll("#found-list input:checked")].map((box) => found[Number(box.dataset.at)]);
  if (!label || selected.length === 0) throw new Error("Select documents and a label first.");
  const after = (one) => (isMulti && one.labels ? [...new Set([...one.labels, label])] : [label]);
  const changing = selected.filter((one) => !one.labels?.includes(label) || (!isMulti && one.labels.length > 1));
  const relabeled = changing.filter((one) => one.labels?.length);
  decisions = changing.map((one) => ({ id: one.id, seen: one.labels ?? [], decision: "label", labels: after(one) }));
  const already = selected.length - changing.length;
  $("preview-text").textContent = [`${changing.length} documents get the label ${label}.`,
    relabeled.length ? `${relabeled.length} of them have other labels now: ${names([...new Set(relabeled.flatMap((one) => one.labels))].slice(0, 5))}${isMulti ? ", which they keep" : ""}.` : "",
    already ? `${already} have it already.` : ""].filter(Boolean).join(" ");
  $("preview").hidden = false;
  $("apply").disabled = changing.length === 0;
  $("apply").focus();
}

async function apply() {
  if (!await send(decisions)) return;
  const labeled = new Map(decisions.map(({ id, labels: now }) => [id, now]));
  $("said").textContent = `Labeled: ${labeled.size} documents. ${$("said").textContent}`;
  found = found.map((one) => ({ ...one, labels: labeled.get(one.id) ?? one.labels }));
  $("preview").hidden = true;
  $("found-list").querySelectorAll("input:checked").forEach((box) => {
    box.checked = false;
    box.parentElement.querySelector(".now").textContent = ` ${names(found[Number(box.dataset.at)].labels)}`;
  });
}

// ---- Progress ----

function progress(now) {
  $("about").textContent = `${now.labeled.toLocaleString("en")} of ${now.documents.toLocaleString("en")} documents labeled, ${now.review.left.toLocaleString("en")} to review`;
  const facts = [
    ["Labeled", String(now.labeled)],
    ["Skipped", String(now.skipped)],
    ["Left", String(now.left)],
    ["Expected share of right labels in the rest", now.expected !== null ? percent(now.expected) : now.left ? "unknown: the model is not calibrated; train it with --tune" : "nothing is left"],
    ["Predictions that were right", now.right_of ? `${now.right} of the last ${now.right_of} labeled documents, mostly uncertain ones` : "none were decided yet"],
    ["Findings to review", `${now.review.left} of ${now.review.found}`],
  ];
  $("facts").replaceChildren(...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  const points = now.history.filter(({ expected }) => expected !== null).map(({ labeled, expected }) => [labeled, expected]);
  $("curve").querySelector("svg")?.remove();
  $("curve").hidden = points.length < 2;
  if (points.length >= 2) $("curve").prepend(chart(points, { title: "Expected share of right labels by number of labeled documents" }));
}

async function exported() {
  const answer = await fetch("/v1/labeling/export", { headers: headers() });
  if (!answer.ok) throw new Error(`The server answered with ${answer.status}.`);
  const address = URL.createObjectURL(await answer.blob());
  make("a", { href: address, download: "labeled.jsonl" }).click();
  URL.revokeObjectURL(address);
}

// ---- The page ----

async function labels() {
  model = await ask("/v1/model", { headers: headers() });
  $("all-labels").replaceChildren(...model.labels.slice(0, 5000).map(({ label }) => make("option", { value: label })));
}

// Loads what the open tab shows.
async function load() {
  if (tab() === "label") await next();
  else if (tab() === "review") await review();
  else progress(await ask("/v1/labeling", { headers: headers() }));
}

async function open() {
  await labels();
  isMulti = model.multi_label;
  if (!$("token").value) {
    $("about").textContent = "Enter the token to start.";
    $("token").focus();
    return;
  }
  await load();
}

function select(name, run = load) {
  for (const other of TABS) {
    const isOpen = other === name;
    $(`${other}-tab`).setAttribute("aria-selected", String(isOpen));
    $(`${other}-tab`).tabIndex = isOpen ? 0 : -1;
    $(`${other}-panel`).hidden = !isOpen;
  }
  alone(run, true);
}

function submit(form, input, run) {
  $(form).addEventListener("submit", (event) => {
    event.preventDefault();
    const value = $(input).value.trim();
    if (!value) return;
    $(input).value = "";
    alone(() => run(value));
  });
}

for (const [at, own] of TABS.entries()) {
  $(`${own}-tab`).addEventListener("click", () => select(own));
  $(`${own}-tab`).addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const name = TABS[(at + step + TABS.length) % TABS.length];
    select(name);
    $(`${name}-tab`).focus();
  });
}
submit("other-form", "other", pick);
submit("review-form", "review-other", reviewOther);
$("save").addEventListener("click", () => alone(save));
$("skip").addEventListener("click", () => alone(() => decide({ decision: "skip" })));
$("review-skip").addEventListener("click", () => alone(skipFinding));
$("similar").addEventListener("click", similar);
document.querySelectorAll(".undo").forEach((button) => button.addEventListener("click", () => alone(undo)));
$("find-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const [text, label] = [$("find-text").value.trim(), $("find-label").value.trim()];
  if (text || label) alone(() => find(text ? { text } : { label }));
});
$("bulk").addEventListener("submit", (event) => { event.preventDefault(); alone(async () => preview()); });
$("apply").addEventListener("click", () => alone(apply));
$("cancel").addEventListener("click", () => { $("preview").hidden = true; });
// The preview is of the selection and the label that were there.
const outdated = () => { $("preview").hidden = true; };
$("found-list").addEventListener("change", outdated);
$("bulk-label").addEventListener("input", outdated);
$("all").addEventListener("change", () => {
  outdated();
  $("found-list").querySelectorAll("input").forEach((box) => { box.checked = $("all").checked; });
});
$("export").addEventListener("click", () => alone(exported));
$("token").addEventListener("change", () => alone(open));
$("reviewer").value = localStorage.getItem("reviewer") ?? "";
$("reviewer").addEventListener("change", () => localStorage.setItem("reviewer", $("reviewer").value.trim()));

function similar() {
  const { id } = shown.document;
  select("find", () => find({ similar: id }));
}

// Keys for the open tab, unless a field has the focus.
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, textarea, select");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  // A key that is held, or pressed before the document was seen, decides nothing.
  if (event.repeat || performance.now() - shownAt < PAUSE) return;
  const list = { label: "choices", review: "review-choices" }[tab()];
  const buttons = list ? [...$(list).querySelectorAll("button")] : [];
  const hasItem = tab() === "label" ? shown : tab() === "review" ? finding : null;
  const number_ = Number(event.key);
  if (event.key === "u") alone(undo);
  else if (!hasItem) return;
  else if (number_ >= 1 && number_ <= KEYS) buttons[number_ - 1]?.click();
  else if (event.key === "s") $(tab() === "label" ? "skip" : "review-skip").click();
  else if (event.key === "f" && tab() === "label") similar();
  else if (event.key === "Enter" && tab() === "label" && isMulti && !event.target.closest?.("a, button, summary")) alone(save);
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (event.target.closest?.(".document") || event.target.closest?.("[role=tab]")) return;
    const at = buttons.indexOf(event.target);
    const step = event.key === "ArrowDown" ? 1 : -1;
    buttons[(at + step + buttons.length) % buttons.length]?.focus();
    event.preventDefault();
  }
});

alone(open);
