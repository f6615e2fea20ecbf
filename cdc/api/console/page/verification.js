// Comparing a target with its upstream: start, how far it is, and what differs.

import { ask, may, path, query } from "./api.js";
import { button, el, table } from "./dom.js";
import { choice, count, failure, pager, span, state } from "./words.js";

const LIMIT = 50;
const ONE = "/changefeeds/{feed}/verifications/{id}";
const ALL = "/changefeeds/{feed}/verifications";
const VERDICTS = [["", "all"], ["different", "different"], ["unsettled", "unsettled"],
  ["behind", "behind"], ["failed", "failed"], ["skipped", "skipped"], ["equal", "equal"]];

/** The newest verification with a page of its tables, null before there is one. */
export async function load(id, { set, at }) {
  const { items } = await ask("GET", path`/changefeeds/${id}/verifications`);
  if (!items.length) return { newest: null };
  const { verdict = "" } = set;
  const of = path`/changefeeds/${id}/verifications/${items[0].id}`;
  return { newest: await ask("GET", of + query({ verdict, offset: at.verified ?? 0, limit: LIMIT })) };
}

export const actions = {
  async verify({ feed }, { set }) {
    const tables = (set.patterns ?? "").split(/[\s,]+/).filter(Boolean);
    await ask("POST", path`/changefeeds/${feed}/verifications`, { tables });
    return "The comparison has begun.";
  },
  async stop({ feed, id }) {
    await ask("DELETE", path`/changefeeds/${feed}/verifications/${id}`);
    return "The comparison stops.";
  },
};

export function draw(feed, { newest }, { at }) {
  return el("section", { "data-key": "verification" },
    el("h3", {}, "Is the target equal to its upstream?"),
    el("div.filters", {},
      may("POST", ALL) && [
        el("label", {}, "Tables ", el("input", { "data-set": "patterns", placeholder: "all, or shop.*", autocomplete: "off" })),
        button("verify", "Compare", { feed }, { disabled: newest?.state === "running" }),
      ],
      newest?.state === "running" && may("DELETE", ONE) && button("stop", "Stop", { feed, id: newest.id }),
      newest && choice("verdict", "Show", VERDICTS)),
    newest && result(newest, at));
}

function result(found, at) {
  const { verdicts } = found;
  const word = found.state !== "finished" ? found.state : found.equal ? "equal" : "different";
  const all = Object.values(verdicts).reduce((a, b) => a + b, 0);
  const listed = Object.entries(verdicts).map(([name, n]) => `${count(n)} ${name}`).join(", ");
  const heads = ["Table", "Verdict", "Compared", "Upstream rows", "Target rows", "Different", "What differs"];
  const rows = found.tables.map((one) => [
    one.table,
    one.table,
    [state(one.verdict), one.verdict === "equal" && !one.exact ? " (moving)" : ""],
    el("td.number", {}, count(one.done)),
    el("td.number", {}, count(one.upstream_rows)),
    el("td.number", {}, count(one.target_rows)),
    el("td.number", {}, count(one.different) + (one.more ? "+" : "")),
    differences(one),
  ]);
  return [
    el("p", { "data-key": "verdict" }, state(word), ` ${listed || "no tables yet"} in ${span(found.seconds)}`,
      found.messages ? `, ${count(found.messages)} messages read` : ""),
    failure(found.error),
    table("Compared tables", heads, rows, "None."),
    pager("verified", Math.max(all, found.tables.length), at.verified ?? 0, LIMIT),
  ];
}

function differences(one) {
  const lines = [...one.structure, ...one.notes, ...one.differences.map(difference)];
  if (!lines.length) return "";
  return el("details", { "data-key": "differences", open: lines.length <= 3 },
    el("summary", {}, `${count(lines.length)} shown`), el("ul", {}, lines.map((line) => el("li", {}, line))));
}

const KINDS = { changed: "differs", missing: "is missing at the target", extra: "is at the target only", count: "is there another number of times" };

const shown = (value) => (value === null ? "NULL" : `'${value}'`);

function difference({ kind, key, values }) {
  const where = Object.entries(key).map(([name, value]) => `${name}=${shown(value)}`).join(", ");
  const what = values.map(({ column, upstream, target }) => `${column}: upstream ${shown(upstream)}, target ${shown(target)}`);
  return `(${where}) ${KINDS[kind] ?? kind}${what.length ? `; ${what.join("; ")}` : ""}`;
}
