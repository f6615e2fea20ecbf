// All changefeeds, and what can be done to one of them.

import { ask, may, path, query } from "./api.js";
import { age } from "./clock.js";
import { button, el, table } from "./dom.js";
import { note, plot } from "./plot.js";
import { choice, failure, pager, search, span, state } from "./words.js";

const LIMIT = 100;
const FEED = "/changefeeds/{feed}";
const STATES = [["", "not finished"], ["all", "all"], ["normal", "normal"], ["warning", "warning"],
  ["stopped", "stopped"], ["failed", "failed"], ["finished", "finished"]];
const PAUSED_FROM = new Set(["normal", "warning"]);
const RESUMED_FROM = new Set(["stopped", "failed", "finished", "warning"]);

/** Whether a changefeed has a checkpoint that should move. */
export const runs = (feed) => PAUSED_FROM.has(feed.state);

/** The buttons of a changefeed that its state and the role allow. */
export function buttons(feed) {
  const { id } = feed;
  return [
    PAUSED_FROM.has(feed.state) && may("POST", `${FEED}/pause`) && button("pause", "Pause", { feed: id }),
    RESUMED_FROM.has(feed.state) && may("POST", `${FEED}/resume`) && button("resume", "Resume", { feed: id }),
    may("DELETE", FEED) && button("remove", "Remove…", { feed: id }),
  ];
}

/** What the buttons do; each answers what is to be said when it is done, nothing if it was not. */
export const actions = {
  async pause({ feed }) {
    await ask("POST", path`/changefeeds/${feed}/pause`);
    return `Changefeed ${feed} is paused.`;
  },
  async resume({ feed }) {
    await ask("POST", path`/changefeeds/${feed}/resume`);
    return `Changefeed ${feed} goes on.`;
  },
  async remove({ feed }, { question }) {
    const text = "Its progress is forgotten. What it has delivered stays at the target, and the "
      + "log of its upstream stays as long as others need it.";
    if (!(await question(`Remove changefeed ${feed}?`, text, "Remove"))) return "";
    await ask("DELETE", path`/changefeeds/${feed}`);
    location.hash = "#/changefeeds";
    return `Changefeed ${feed} is removed.`;
  },
};

export const changefeeds = {
  title: "Changefeeds",
  actions,
  async load({ set, at }) {
    const { state: wanted = "", contains = "" } = set;
    const offset = at.changefeeds ?? 0;
    const found = await ask("GET", `/changefeeds${query({ state: wanted, contains, offset, limit: LIMIT })}`);
    for (const feed of found.items) if (runs(feed)) note(feed.id, age(feed.checkpoint_tso));
    return found;
  },
  draw({ total, items }, { at }) {
    const heads = ["Changefeed", "Upstream", "State", "Checkpoint (UTC)", "Lag", "Since opened", "Error", ""];
    const rows = items.map((feed) => [
      feed.id,
      el("a", { href: `#/changefeeds/${encodeURIComponent(feed.id)}` }, feed.id),
      feed.upstream,
      state(feed.state),
      feed.checkpoint_time,
      el("td.number", {}, runs(feed) ? span(age(feed.checkpoint_tso)) : ""),
      plot(feed.id),
      failure(feed.error),
      el("td.actions", {}, buttons(feed)),
    ]);
    return [
      el("div.filters", { "data-key": "filters" },
        choice("state", "State", STATES), search("contains", "Name contains")),
      table("Changefeeds", heads, rows, "No changefeed. cdc cli changefeed create makes one."),
      pager("changefeeds", total, at.changefeeds ?? 0, LIMIT),
    ];
  },
};
