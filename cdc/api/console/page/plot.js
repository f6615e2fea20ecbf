// The lag of changefeeds since the page was opened, and its drawing.

import { el } from "./dom.js";
import { span } from "./words.js";

const KEPT = 900;
const HOLE_MS = 15000;

const lags = new Map();

/** Note a lag, in seconds, at a time of ours. */
export function note(feed, seconds, atMs = Date.now()) {
  const points = lags.get(feed) ?? [];
  points.push([atMs, Math.max(0, seconds)]);
  if (points.length > KEPT) points.shift();
  lags.set(feed, points);
}

/** A line over time; `large` has its scale beside it. */
export function plot(feed, large = false) {
  const points = lags.get(feed) ?? [];
  if (points.length < 2) return el("span.quiet", {}, large ? "The plot begins with the next answers." : "");
  const [width, height] = large ? [720, 160] : [120, 24];
  const [left, top, bottom] = large ? [64, 10, 24] : [0, 2, 2];
  const [from, until] = [points[0][0], points.at(-1)[0]];
  const most = Math.max(...points.map(([, s]) => s));
  const scale = Math.max(1, most * 1.05);
  const x = (ms) => left + ((ms - from) / Math.max(1, until - from)) * (width - left - 2);
  const y = (s) => height - bottom - (s / scale) * (height - top - bottom);
  let before = -Infinity;
  const line = points
    .map(([ms, s]) => {
      const move = ms - before > HOLE_MS ? "M" : "L";
      before = ms;
      return `${move}${x(ms).toFixed(1)} ${y(s).toFixed(1)}`;
    })
    .join("");
  const label = `Lag: now ${span(points.at(-1)[1])}, at most ${span(most)}, in the last ${span((until - from) / 1000)}`;
  return el(
    large ? "svg.plot.large" : "svg.plot",
    { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, "data-key": `plot-${feed}` },
    large && [
      el("line.axis", { x1: left, x2: width, y1: y(0), y2: y(0) }),
      el("line.axis", { x1: left, x2: width, y1: y(scale / 2), y2: y(scale / 2) }),
      el("line.axis", { x1: left, x2: width, y1: y(scale), y2: y(scale) }),
      el("text", { x: left - 6, y: y(0) + 4, "text-anchor": "end" }, "0 s"),
      el("text", { x: left - 6, y: y(scale / 2) + 4, "text-anchor": "end" }, span(scale / 2)),
      el("text", { x: left - 6, y: y(scale) + 4, "text-anchor": "end" }, span(scale)),
      el("text", { x: left, y: height - 6 }, `${span((until - from) / 1000)} ago`),
      el("text", { x: width, y: height - 6, "text-anchor": "end" }, "now"),
    ],
    el("path", { d: line }),
  );
}
