// Captures: who is the owner, what runs where, and handing over.

import { ask, may, path } from "./api.js";
import { button, el, table } from "./dom.js";
import { names, state } from "./words.js";

export const captures = {
  title: "Captures",
  actions: {
    async drain({ id }, { question }) {
      const text = "It hands over what it does, and owns nothing until it is started anew.";
      if (!(await question(`Drain capture ${id}?`, text, "Drain"))) return "";
      const { current_table_count: left } = await ask("PUT", path`/captures/${id}/drain`);
      return `Capture ${id} is drained; ${left} tables to hand over.`;
    },
    async resign(_, { question }) {
      const text = "Another capture becomes the owner: it pulls the upstreams and delivers.";
      if (!(await question("Have the owner resign?", text, "Resign"))) return "";
      await ask("POST", "/owner/resign");
      return "The owner has resigned.";
    },
  },
  async load() {
    const [found, running] = await Promise.all([ask("GET", "/captures"), ask("GET", "/processors")]);
    return { found: found.items, running: running.items };
  },
  draw({ found, running }) {
    const rows = found.map((one) => [
      one.id,
      one.id,
      [one.is_owner ? state("owner") : state("standby"), one.is_drained && [" ", state("drained")]],
      one.address,
      one.version,
      names(one.upstreams, 20),
      names(running.filter((r) => r.capture_id === one.id).map((r) => r.changefeed_id), 20),
      el("td.actions", {},
        one.is_owner && may("POST", "/owner/resign") && button("resign", "Resign…"),
        !one.is_drained && may("PUT", "/captures/{capture_id}/drain") && button("drain", "Drain…", { id: one.id })),
    ]);
    return [table("Captures", ["Capture", "Role", "Address", "Version", "Upstreams", "Delivers", ""], rows, "None.")];
  },
};
