// How values are written, and the small parts that all views have.

import { button, el } from "./dom.js";

const NUMBER = new Intl.NumberFormat("en");

export const count = (n) => NUMBER.format(n);

/** Milliseconds since 1970 of a ts, which may be text. */
export const millis = (ts) => Number(BigInt(ts) >> 18n);

/** 0.4 s, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h */
export function span(seconds) {
  const s = Math.max(0, seconds);
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([unit]) => s >= unit);
  const [[big, name], [small, other] = [1, ""]] = parts.slice(first, first + 2);
  const rest = Math.floor((s % big) / small);
  return `${Math.floor(s / big)} ${name}${rest ? ` ${rest} ${other}` : ""}`;
}

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, n > 0 ? Math.floor(Math.log2(n) / 10) : 0);
  const value = n / 2 ** (10 * power);
  return `${power && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[power]}`;
}

/** A state as a word with a colour; the word is enough without it. */
export const state = (name) => el(`span.state.is-${name}`, {}, name);

/** An error with its hint; nothing without one. */
export function failure(error) {
  if (!error) return "";
  return el(
    "div.error",
    {},
    el("code", {}, error.code),
    ` ${error.object ? `${error.object}: ` : ""}${error.message}`,
    error.hint && el("div.hint", {}, `Hint: ${error.hint}`),
    error.time && el("div.quiet", {}, error.time),
  );
}

/** Names, the first of them and how many more there are. */
export function names(given, shown = 5) {
  const more = given.length - shown;
  return given.slice(0, shown).join(", ") + (more > 0 ? ` and ${count(more)} more` : "");
}

/** Facts as a list of names and values; what is empty is left out. */
export function facts(given) {
  const kept = Object.entries(given).filter(([, v]) => v !== "" && v !== null && v !== undefined);
  return el("dl", { "data-key": "facts" }, kept.map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, v))));
}

/** Buttons to the pages of a list of `total`, and where this one is; "" if there is only one. */
export function pager(key, total, offset, limit) {
  if (total <= limit && !offset) return "";
  const last = Math.min(offset + limit, total);
  return el(
    "p.pager",
    { "data-key": `pager-${key}` },
    button("page", "Previous", { list: key, to: Math.max(0, offset - limit) }, { disabled: !offset }),
    ` ${count(Math.min(offset + 1, total))}–${count(last)} of ${count(total)} `,
    button("page", "Next", { list: key, to: offset + limit }, { disabled: last >= total }),
  );
}

/** A field that narrows a list; what it holds is kept by the view as `name`. */
export const search = (name, label) =>
  el("label", { "data-key": `search-${name}` }, `${label} `,
    el("input", { type: "search", "data-set": name, autocomplete: "off", spellcheck: "false" }));

/** A choice between words; the first is what holds without one. */
export const choice = (name, label, options) =>
  el("label", { "data-key": `choice-${name}` }, `${label} `,
    el("select", { "data-set": name }, options.map(([value, text]) => el("option", { value }, text))));
