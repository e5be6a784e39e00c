"use strict";

function make(name, ...children) {
  const element = document.createElement(name);
  element.append(...children);
  return element;
}

function example(schema, all, depth = 0) {
  if (!schema || depth > 5) return null;
  if (schema.$ref) return example(all[schema.$ref.split("/").pop()], all, depth + 1);
  if (schema.example !== undefined) return schema.example;
  if (schema.oneOf) return example(schema.oneOf.find((one) => one.type !== "null"), all, depth + 1);
  const type = Array.isArray(schema.type) ? schema.type.find((one) => one !== "null") : schema.type;
  if (type === "object" || schema.properties) {
    return Object.fromEntries(Object.entries(schema.properties ?? {})
      .map(([name, own]) => [name, example(own, all, depth + 1)]));
  }
  if (type === "array") return [example(schema.items, all, depth + 1)];
  return { string: "…", integer: 1, number: 0.5, boolean: true }[type] ?? null;
}

async function open() {
  const api = await (await fetch("/openapi.json")).json();
  const schemas = api.components?.schemas ?? {};
  document.getElementById("about").textContent = api.info.description ?? "";
  const sections = [];
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const section = make("section", make("h2", `${method.toUpperCase()} ${path}`));
      if (operation.security) section.append(make("p", "Needs the token."));
      const parameters = (operation.parameters ?? []).map((one) =>
        make("tr", make("td", make("code", one.name)), make("td", one.in), make("td", one.description ?? "")));
      if (parameters.length) section.append(make("table", make("tbody", ...parameters)));
      const body = operation.requestBody?.content?.["application/json"]?.schema;
      const data = body ? JSON.stringify(example(body, schemas)) : "";
      const command = ["curl", method === "get" || (method === "post" && data) ? "" : `-X ${method.toUpperCase()}`,
        `${location.origin}${path}`, operation.security ? "-H 'authorization: Bearer TOKEN'" : "",
        data ? `-H 'content-type: application/json' -d '${data}'` : ""].filter(Boolean).join(" ");
      section.append(make("pre", command));
      const answers = Object.entries(operation.responses ?? {}).map(([status, { description }]) =>
        make("tr", make("td", status), make("td", description)));
      section.append(make("table", make("tbody", ...answers)));
      sections.push(section);
    }
  }
  document.getElementById("operations").replaceChildren(...sections);
}

open();
