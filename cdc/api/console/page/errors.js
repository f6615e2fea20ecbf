// What is wrong now, and what was since the page was opened, each with its hint.

import { ask, query } from "./api.js";
import { el, table } from "./dom.js";
import { failure } from "./words.js";

const LIMIT = 1000;
const KEPT = 200;

const seen = new Map();

/** Note an error of something; the same one again only moves its time. */
export function noteError(of, href, error) {
  if (!error) return;
  const key = `${of} ${error.code} ${error.message}`;
  const first = seen.get(key)?.first ?? Date.now();
  seen.delete(key);
  seen.set(key, { key, of, href, error, first, last: Date.now() });
  if (seen.size > KEPT) seen.delete(seen.keys().next().value);
}

const time = (ms) => new Date(ms).toISOString().slice(0, 19).replace("T", " ");

export const errors = {
  title: "Errors",
  actions: {},
  async load() {
    const [feeds, ups] = await Promise.all([
      ask("GET", `/changefeeds${query({ state: "all", limit: LIMIT })}`),
      ask("GET", `/upstreams${query({ limit: LIMIT })}`),
    ]);
    const asked = Date.now();
    for (const { id, error } of feeds.items) noteError(`changefeed ${id}`, `#/changefeeds/${encodeURIComponent(id)}`, error);
    for (const { name, error } of ups.items) noteError(`upstream ${name}`, "#/upstreams", error);
    return { asked };
  },
  draw({ asked }) {
    const rows = [...seen.values()].reverse().map((one) => [
      one.key,
      el("a", { href: one.href }, one.of),
      one.last >= asked ? "now" : `until ${time(one.last)}`,
      time(one.first),
      failure(one.error),
    ]);
    return [table("Errors", ["Of", "Seen", "First seen here (UTC)", "Error"], rows, "No error since the page was opened.")];
  },
};
