// Tables of a changefeed that are not with the others, and why; on demand all of them.

import { ask, path, query } from "./api.js";
import { age } from "./clock.js";
import { el, table } from "./dom.js";
import { choice, count, failure, pager, search, span, state } from "./words.js";

const LIMIT = 50;
const STATES = [["", "not with the others"], ["waiting", "waiting"], ["apart", "behind or ahead"],
  ["stopped", "stopped"], ["all", "all"]];

export function load(id, { set, at }) {
  const { tables: wanted = "", table: contains = "" } = set;
  return ask("GET", path`/changefeeds/${id}/tables`
    + query({ state: wanted, contains, offset: at.tables ?? 0, limit: LIMIT }));
}

export function draw({ total, items }, { at }) {
  const rows = items.map((one) => [
    one.table,
    one.table === "*" ? "all tables" : one.table,
    state(one.state),
    one.checkpoint_time,
    el("td.number", {}, one.checkpoint_ts ? span(age(one.checkpoint_ts)) : ""),
    [one.error ? failure(one.error) : one.why,
      one.ddl_ts ? [", ", el("a", { href: location.hash, "data-do": "show", "data-ts": one.ddl_ts }, one.ddl_ts)] : ""],
  ]);
  return el("section", { "data-key": "tables" },
    el("h3", {}, "Tables"),
    el("div.filters", {}, choice("tables", "Show", STATES), search("table", "Name contains")),
    table("Tables of the changefeed", ["Table", "State", "Stands at (UTC)", "Lag", "Why"], rows, "None."),
    el("p.quiet", { "data-key": "count" }, `${count(total)} in all`),
    pager("tables", total, at.tables ?? 0, LIMIT));
}
