"use strict";
// What the pages share. Content from texts or the model becomes text nodes, never markup.

const $ = (id) => document.getElementById(id);
const MAX_CHARACTERS = 20000; // maximum number of characters shown of a text

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

// ---- Explanations ----

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

// ---- Charts ----

// Draws a line through points [x, y]. `at` places x on the axis, and `name` names its ends.
function chart(points, { title, at = (x) => x, name = String }) {
  const [width, height, edge] = [320, 160, 34];
  const lowest = Math.min(...points.map((point) => point[1]));
  const highest = Math.max(...points.map((point) => point[1]));
  const ends = [at(points[0][0]), at(points.at(-1)[0])];
  const x = (value) => edge + (width - edge - 10) * (at(value) - ends[0]) / (ends[1] - ends[0] || 1);
  const y = (value) => height - 24 - (height - 36) * (value - lowest) / (highest - lowest || 1);
  const svg = (element, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", element);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.append(text);
    return made;
  };
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}, from ${number(lowest)} to ${number(highest)}` });
  root.append(svg("line", { class: "axis", x1: edge, y1: height - 20, x2: width - 6, y2: height - 20 }));
  root.append(svg("polyline", { class: "line", points: points.map(([a, b]) => `${x(a)},${y(b)}`).join(" ") }));
  if (points.length <= 40) points.forEach(([a, b]) => root.append(svg("circle", { class: "dot", cx: x(a), cy: y(b), r: 3 })));
  for (const end of [0, points.length - 1]) {
    root.append(svg("text", { x: x(points[end][0]), y: height - 6, "text-anchor": end ? "end" : "start" }, name(points[end][0])));
  }
  root.append(svg("text", { x: 0, y: y(highest) + 4 }, number(highest)));
  if (highest > lowest) root.append(svg("text", { x: 0, y: y(lowest) + 4 }, number(lowest)));
  return root;
}

// ---- The token ----

// It is kept until the browser is closed, for both pages.
$("token").value = sessionStorage.getItem("token") ?? "";
$("token").addEventListener("change", () => sessionStorage.setItem("token", $("token").value));
