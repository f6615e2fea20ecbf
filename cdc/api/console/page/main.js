// What the address asks for is shown, asked for again every two seconds, and acted upon.

import { Refused, fromAddress, keep, learn, token } from "./api.js";
import { captures } from "./captures.js";
import { changefeed } from "./changefeed.js";
import { changefeeds } from "./changefeeds.js";
import { setClock } from "./clock.js";
import { el, button, morph } from "./dom.js";
import { errors } from "./errors.js";
import { upstreams } from "./upstreams.js";
import { failure } from "./words.js";

const EVERY_MS = 2000;
const SAID_MS = 10000;
const VIEWS = { changefeeds, upstreams, captures, errors };

const place = document.getElementById("view");
const states = new Map();
let caller = null;
let turn = 0;
let timer = 0;
let shown = "";

/** The view of the address, with what was set in it. */
function current() {
  const [name = "", ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  const args = rest.map(decodeURIComponent);
  const key = location.hash;
  if (!states.has(key)) states.set(key, { set: {}, at: {} });
  const of = name === "changefeeds" && args.length ? changefeed : VIEWS[name] ?? changefeeds;
  return { of, name: VIEWS[name] ? name : "changefeeds", key, args, question, ...states.get(key) };
}

async function refresh() {
  clearTimeout(timer);
  const mine = ++turn;
  try {
    if (!token()) return login("");
    caller ??= await learn();
    await setClock();
    const view = current();
    const data = await view.of.load(view);
    if (mine !== turn) return;
    draw(view, data);
    lost("");
  } catch (error) {
    if (mine !== turn) return;
    if (!(error instanceof Refused)) throw error;
    if (error.status === 401) return login(error.message);
    lost(error);
  } finally {
    if (mine === turn && token()) timer = setTimeout(tick, EVERY_MS);
  }
}

function tick() {
  // A page that nobody sees asks for nothing.
  if (document.hidden) timer = setTimeout(tick, EVERY_MS);
  else refresh();
}

function draw(view, data) {
  if (shown !== view.key) {
    place.replaceChildren();
    shown = view.key;
  }
  const label = view.args.length ? view.args[0] : view.of.title;
  document.title = `${label} · Tidegate`;
  morph(place, el("div", {}, view.of.draw(data, view)));
  restore(view);
  head(view);
}

/** What was chosen in a view stands in its fields when one comes back to it. */
function restore(view) {
  for (const field of place.querySelectorAll("[data-set]")) {
    const value = view.set[field.dataset.set] ?? "";
    if (field !== document.activeElement && field.value !== value) field.value = value;
  }
}

function head(view) {
  const links = Object.entries(VIEWS).map(([name, { title }]) =>
    el("a", { href: `#/${name}`, "aria-current": view?.name === name ? "page" : null }, title));
  morph(document.getElementById("views"), el("nav", {}, view ? links : []));
  const who = view ? [el("span", {}, `${caller.name}, ${caller.role}`), " ", button("leave", "Forget the token")] : [];
  morph(document.getElementById("who"), el("p", {}, who));
}

function login(why) {
  keep("");
  caller = null;
  shown = "";
  document.title = "Tidegate";
  head(null);
  lost("");
  place.replaceChildren(
    el("form", { id: "login" },
      el("h2", {}, "Who are you?"),
      el("p", {}, "A token says it: what ", el("code", {}, "cdc cli token create"), " has printed, or, of the server's own user, what ",
        el("code", {}, "cdc cli console"), " opens this page with. It is kept in this tab only."),
      why && el("p.error", { role: "alert" }, why),
      el("label", {}, "Token ", el("input", { type: "password", id: "token", autocomplete: "off", required: true })),
      el("button.main", { type: "submit" }, "Look")));
  document.getElementById("token").focus();
}

function leave() {
  states.clear();
  login("");
}

const said = document.getElementById("said");

/** Say what has happened, or that it has not, for a while. */
function say(what) {
  const bad = what instanceof Refused;
  const note = el(bad ? "p.said.bad" : "p.said", { role: bad ? "alert" : "status" },
    bad ? failure(what) : what, " ", el("button", { type: "button", "aria-label": "Dismiss" }, "×"));
  note.querySelector("button").addEventListener("click", () => note.remove());
  said.append(note);
  if (!bad) setTimeout(() => note.remove(), SAID_MS);
}

/** Say that what is shown is old, as long as it is. */
function lost(error) {
  document.getElementById("lost")?.remove();
  if (error) said.prepend(el("div.said.bad", { id: "lost", role: "alert" }, failure(error)));
}

const dialog = document.getElementById("question");

/** Ask before what cannot be taken back: null for no, else what was given. */
function question(title, text, yes, { reason = false } = {}) {
  dialog.querySelector("#question-title").textContent = title;
  dialog.querySelector("#question-text").textContent = text;
  dialog.querySelector("#question-yes").textContent = yes;
  const field = dialog.querySelector("input");
  dialog.querySelector("#question-reason").hidden = !reason;
  field.value = "";
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => resolve(dialog.returnValue === "yes" ? { reason: field.value } : null),
      { once: true },
    );
  });
}

document.getElementById("question-no").addEventListener("click", () => dialog.close("no"));

document.addEventListener("click", async (event) => {
  const asked = event.target.closest("[data-do]");
  if (!asked || asked.disabled) return;
  event.preventDefault();
  const { do: name, ...data } = asked.dataset;
  const view = current();
  if (name === "leave") return leave();
  if (name === "page") {
    view.at[data.list] = Number(data.to);
    return refresh();
  }
  asked.disabled = true;
  try {
    const done = await view.of.actions[name](data, view);
    if (done) say(done);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.status === 401) return login(error.message);
    say(error);
  } finally {
    asked.disabled = false;
  }
  refresh();
});

document.addEventListener("input", ({ target }) => {
  const name = target.dataset?.set;
  if (!name) return;
  const view = current();
  view.set[name] = target.value;
  for (const list of Object.keys(view.at)) delete view.at[list];
  if (name === "patterns") return;
  clearTimeout(timer);
  timer = setTimeout(refresh, target.nodeName === "SELECT" ? 0 : 250);
});

document.addEventListener("submit", (event) => {
  if (event.target.id !== "login") return;
  event.preventDefault();
  const field = document.getElementById("token");
  const given = field.value.trim();
  field.value = "";
  if (!/^[\x21-\x7e]+$/.test(given)) return login("a token has no such characters");
  keep(given);
  refresh();
});

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  place.focus();
});

document.addEventListener("visibilitychange", () => document.hidden || refresh());
addEventListener("hashchange", () => {
  fromAddress();
  refresh();
});
fromAddress();
refresh();
