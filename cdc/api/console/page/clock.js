// The server's clock: a lag is told by it, whatever this machine thinks of the time.

import { ask } from "./api.js";
import { millis } from "./words.js";

const KEPT_MS = 60000;

let ahead = 0;
let asked = -Infinity;

/** Ask for the server's time, if that was not done lately. */
export async function setClock() {
  if (performance.now() - asked < KEPT_MS) return;
  const { timestamp } = await ask("POST", "/tso");
  ahead = timestamp - Date.now();
  asked = performance.now();
}

/** How old a ts is, in seconds. */
export const age = (ts) => (Date.now() + ahead - millis(ts)) / 1000;
