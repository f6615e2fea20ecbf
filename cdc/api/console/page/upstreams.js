// Upstreams: how far each is pulled, how large its log is, and what is wrong with it.

import { ask, query } from "./api.js";
import { age } from "./clock.js";
import { el, table } from "./dom.js";
import { bytes, failure, pager, search, span, state } from "./words.js";

const LIMIT = 100;

export const upstreams = {
  title: "Upstreams",
  actions: {},
  load: ({ set, at }) =>
    ask("GET", `/upstreams${query({ contains: set.contains ?? "", offset: at.upstreams ?? 0, limit: LIMIT })}`),
  draw({ total, items }, { at }) {
    const heads = ["Upstream", "State", "Server", "Resolved (UTC)", "Lag", "Log", "Capture", "What is wrong"];
    const rows = items.map((one) => [
      one.name,
      [one.name, el("div.quiet", {}, one.uri)],
      state(one.state),
      `${one.server_kind} ${one.server_version}`,
      one.resolved_time,
      el("td.number", {}, one.resolved_ts ? span(age(one.resolved_ts)) : ""),
      el("td.number", {}, bytes(one.log_bytes)),
      [one.capture_id, moving(one)],
      [failure(one.error), one.findings.map(finding), one.prepared.map(prepared)],
    ]);
    return [
      el("div.filters", { "data-key": "filters" }, search("contains", "Name contains")),
      table("Upstreams", heads, rows, "No upstream. cdc cli upstream create registers one."),
      pager("upstreams", total, at.upstreams ?? 0, LIMIT),
    ];
  },
};

/** Where it is still, while it is on its way to where it is placed. */
const moving = ({ capture_id: placed, held_by: held }) =>
  placed && held !== placed && el("div.quiet", {}, held ? `still at ${held}` : "not taken yet");

const finding = ({ what, statement }) =>
  el("div.finding", {}, what, statement && el("div.hint", {}, "Hint: ", el("code", {}, statement)));

const prepared = ({ xid, since, log_bytes: size }) =>
  el("div.finding", {}, `XA transaction ${xid} is prepared since ${since || "before the log"}; ${bytes(size)} of the log stay for it`);
