// One changefeed: how far it is, its tables that wait, its schema changes, its verifications.

import { ask, may, path } from "./api.js";
import { actions, buttons, runs } from "./changefeeds.js";
import { age } from "./clock.js";
import * as ddls from "./ddls.js";
import { el } from "./dom.js";
import { note, plot } from "./plot.js";
import * as tables from "./tables.js";
import * as verification from "./verification.js";
import { bytes, count, facts, failure, span, state } from "./words.js";

const VERIFICATIONS = "/changefeeds/{feed}/verifications";

export const changefeed = {
  title: "Changefeed",
  actions: { ...actions, ...ddls.actions, ...verification.actions },
  async load(view) {
    const [id] = view.args;
    const [info, waiting, changes, compared] = await Promise.all([
      ask("GET", path`/changefeeds/${id}`),
      tables.load(id, view),
      ddls.load(id, view),
      may("GET", VERIFICATIONS) ? verification.load(id, view) : null,
    ]);
    if (runs(info)) note(id, age(info.checkpoint_ts));
    return { info, waiting, changes, compared };
  },
  draw({ info, waiting, changes, compared }, view) {
    return [
      el("p", { "data-key": "back" }, el("a", { href: "#/changefeeds" }, "All changefeeds")),
      el("div.title", { "data-key": "title" },
        el("h2", {}, info.id), " ", state(info.state), el("span.actions", {}, buttons(info))),
      el("div", { "data-key": "error" }, failure(info.error)),
      facts({
        Lag: runs(info) ? span(age(info.checkpoint_ts)) : "",
        "Checkpoint (UTC)": info.checkpoint_time,
        "Checkpoint ts": info.checkpoint_ts,
        "Resolved ts": info.resolved_ts || "",
        "Barrier ts": info.barrier_ts || "",
        "Target ts": info.target_ts || "",
        Upstream: info.upstream,
        Sink: info.sink_uri,
        "Created (UTC)": info.create_time,
      }),
      el("section", { "data-key": "lag" }, el("h3", {}, "Lag since this page was opened"), plot(info.id, true)),
      copied(info.snapshot),
      tables.draw(waiting, view),
      ddls.draw(info.id, changes, view),
      compared && verification.draw(info.id, compared, view),
    ].filter(Boolean);
  },
};

function copied(snapshot) {
  if (!snapshot) return null;
  const { state: now, tables: all, tables_done: done, rows, bytes: size, began, ended } = snapshot;
  const left = snapshot.reading?.seconds_left;
  return el("section", { "data-key": "snapshot" },
    el("h3", {}, "Rows that were there before"),
    el("p", {}, state(now), " ",
      el("progress", { max: Math.max(1, all), value: done, "aria-label": "Tables copied" }),
      ` ${count(done)} of ${count(all)} tables, ${count(rows)} rows, ${bytes(size)} read`),
    facts({
      "Left": left == null ? "" : `about ${span(left)}`, "Began (UTC)": began, "Ended (UTC)": ended,
    }));
}
