// The server's API, asked with the token that this tab was given.

const KEY = "tidegate.token";

/** An answer that is not 2xx, or none at all. */
export class Refused extends Error {
  constructor(status, body) {
    super(body.error_msg);
    this.status = status;
    this.code = body.error_code;
    this.hint = body.hint;
  }
}

export const token = () => sessionStorage.getItem(KEY) ?? "";

/** Keep a token for this tab alone, until it is closed; an empty one is forgotten. */
export function keep(given) {
  if (given) sessionStorage.setItem(KEY, given);
  else sessionStorage.removeItem(KEY);
}

/** The token out of the address, which is cleared of it: it stays in no history. */
export function fromAddress() {
  const found = /^#token=([\w-]+)$/.exec(location.hash);
  if (!found) return;
  keep(found[1]);
  history.replaceState(null, "", location.pathname + location.search);
}

/** JSON whose whole numbers of 16 digits and more stay as text: a ts has more than a number keeps. */
export function parsed(text) {
  const parts = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  return JSON.parse(text.replace(parts, (part) => (/^-?\d{16,}$/.test(part) ? `"${part}"` : part)));
}

/** The answer to a request; raises Refused. */
export async function ask(method, path, body) {
  const headers = { Authorization: `Bearer ${token()}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer, text;
  try {
    answer = await fetch(`api/v2${path}`, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit",
      cache: "no-store",
    });
    text = await answer.text();
  } catch {
    throw new Refused(0, {
      error_msg: "the server does not answer",
      error_code: "",
      hint: "see whether cdc server runs; the page asks again by itself",
    });
  }
  if (answer.ok) return parsed(text);
  let said;
  try {
    said = JSON.parse(text);
  } catch {
    said = {};
  }
  throw new Refused(answer.status, {
    error_msg: said.error_msg ?? `answered ${answer.status}`,
    error_code: said.error_code ?? "",
    hint: said.hint ?? "",
  });
}

/** A path with its parts made safe: path`/changefeeds/${id}/pause`. */
export const path = (texts, ...parts) =>
  texts.reduce((all, text, n) => all + encodeURIComponent(parts[n - 1]) + text);

/** The query string of what is not empty. */
export function query(given) {
  const found = new URLSearchParams(Object.entries(given).filter(([, v]) => v !== "" && v !== 0));
  return found.size ? `?${found}` : "";
}

let caller = { name: "", role: "", may: new Set() };

/** Learn who the token is of, and what its role lets through. */
export async function learn() {
  const found = await ask("GET", "/caller");
  caller = { ...found, may: new Set(found.may) };
  return caller;
}

/** Whether the role lets a request through, as the server's own table says. */
export const may = (method, route) => caller.may.has(`${method} /api/v2${route}`);
