// The schema changes of a changefeed in their order, and the operator's word on those that wait.

import { ask, may, path, query } from "./api.js";
import { button, el } from "./dom.js";
import { choice, count, facts, failure, names, pager, search, state } from "./words.js";

const LIMIT = 20;
const DECIDE = "/changefeeds/{feed}/ddls/{ts}/{action}";
const STATES = [["", "all"], ["pending", "pending"], ["held", "held"], ["failed", "failed"],
  ["done", "done"], ["skipped", "skipped"], ["ignored", "ignored"]];
const POSSIBLE = { waiting: ["hold", "skip"], held: ["approve", "skip"], failed: ["skip"] };
const ASKED = {
  hold: ["Hold", "It is not begun before it is approved; its tables wait, others go on."],
  approve: ["Approve", "It runs at the target once its tables have come to it."],
  skip: ["Skip", "It is left out for good. The target stays as it is; rows behind the change that do not fit it stop their tables."],
};

export function load(id, { set, at }) {
  const { ddls: wanted = "all", ddl: contains = "" } = set;
  return ask("GET", path`/changefeeds/${id}/ddls`
    + query({ state: wanted || "all", contains, offset: at.ddls ?? 0, limit: LIMIT }));
}

const decide = (action) => async ({ feed, ts, sql }, { question }) => {
  const [label, text] = ASKED[action];
  const said = await question(`${label} this schema change?`, `${sql}\n${text}`, label, { reason: true });
  if (!said) return "";
  await ask("POST", path`/changefeeds/${feed}/ddls/${ts}/${action}`, { reason: said.reason });
  return `${label}: ${ts}`;
};

export const actions = {
  hold: decide("hold"),
  approve: decide("approve"),
  skip: decide("skip"),
  async show({ ts }) {
    document.getElementById(`ddl-${ts}`)?.scrollIntoView({ block: "center" });
    return "";
  },
};

export function draw(feed, page, { at }) {
  return el("section", { "data-key": "ddls" },
    el("h3", {}, "Schema changes"),
    el("p.quiet", {}, `Policy ${page.policy}; ${count(page.executed)} carried out, `
      + `${count(page.skipped)} skipped, ${count(page.ignored)} ignored.`),
    el("div.filters", {}, choice("ddls", "Show", STATES), search("ddl", "Statement contains")),
    page.items.length
      ? el("ol.timeline", { "data-key": "timeline" }, page.items.map((one) => entry(feed, one)))
      : el("p.nothing", { "data-key": "none" }, "None."),
    pager("ddls", page.total, at.ddls ?? 0, LIMIT));
}

function entry(feed, one) {
  const { ts, sql, decision } = one;
  const data = { feed, ts, sql };
  const offered = may("POST", DECIDE) ? POSSIBLE[one.state] ?? [] : [];
  return el("li", { id: `ddl-${ts}`, "data-key": ts },
    el("div.title", {}, state(one.state), ` ${one.time} `, el("span.quiet", {}, ts),
      el("span.actions", {}, offered.map((action) => button(action, `${ASKED[action][0]}…`, data)))),
    el("pre", { tabindex: "0" }, sql),
    failure(one.error),
    facts({
      Tables: one.tables.includes("*") ? "all" : names(one.tables),
      "Waits for": names(one.waits_for),
      Why: one.why,
      "Seen (UTC)": one.since,
      "Begun (UTC)": one.begun,
      "Ended (UTC)": one.ended,
      Decision: decision ? `${decision.action}${decision.reason && `: ${decision.reason}`} (${decision.time})` : "",
    }));
}
