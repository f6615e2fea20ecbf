// Making nodes, and bringing what is shown to what should be without losing focus or selection.

const SVG = new Set(["svg", "path", "line", "text", "g", "title", "polyline"]);

/** A node: el("td.number", {title: "…"}, "text", child, null, [more]). Text is never markup. */
export function el(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const node = SVG.has(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  if (classes.length) node.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== false && c !== undefined));
  return node;
}

/** A button that does what the view calls `name`, with `data` for it. */
export function button(name, label, data = {}, more = {}) {
  const given = Object.entries(data).map(([key, value]) => [`data-${key}`, value]);
  return el("button", { type: "button", "data-do": name, ...Object.fromEntries(given), ...more }, label);
}

/** A table with a caption, whose rows are [key, cells…]; without rows it says `nothing`. */
export function table(caption, heads, rows, nothing) {
  const body = rows.length
    ? rows.map(([key, ...cells]) => el("tr", { "data-key": key }, cells.map(cell)))
    : el("tr", {}, el("td.nothing", { colspan: heads.length }, nothing));
  return el(
    "div.scroll",
    { "data-key": caption },
    el(
      "table",
      {},
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, body),
    ),
  );
}

const cell = (given) => (given instanceof Node && given.nodeName === "TD" ? given : el("td", {}, given));

/** Make the children of `shown` those of `wanted`; nodes that stay are kept, by data-key or place. */
export function morph(shown, wanted) {
  const keyed = new Map();
  for (const child of shown.children) if (child.dataset?.key) keyed.set(child.dataset.key, child);
  let at = shown.firstChild;
  for (const fresh of [...wanted.childNodes]) {
    const key = fresh.dataset?.key;
    const old = key ? keyed.get(key) : at?.dataset?.key ? null : at;
    if (!old || old.nodeName !== fresh.nodeName) {
      shown.insertBefore(fresh, at);
      continue;
    }
    if (old === at) at = at.nextSibling;
    else shown.insertBefore(old, at);
    if (key) keyed.delete(key);
    same(old, fresh);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function same(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    // What the person has opened stays open.
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.nodeName !== "SELECT") morph(old, fresh);
}
