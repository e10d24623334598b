// Building elements. Text is always set as text: nothing from the cluster becomes markup.

export const $ = (id) => document.getElementById(id);

// The current time: the machine's, or the moment of a recording that is shown.
export const present = { now: () => Date.now() };

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// Replaces the children of a list. The focus stays on the control with the same `data-id`.
export function replaceKeepingFocus(list, children) {
  const id = list.contains(document.activeElement) ? document.activeElement.dataset.id : undefined;
  list.replaceChildren(...children);
  if (id !== undefined) list.querySelector(`[data-id="${CSS.escape(id)}"]`)?.focus({ preventScroll: true });
}

// An age as kubectl prints it: two units at most.
export function age(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return seconds % 60 ? `${minutes}m${seconds % 60}s` : `${minutes}m`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return minutes % 60 ? `${hours}h${minutes % 60}m` : `${hours}h`;
  if (hours < 48) return `${hours}h`;
  const days = Math.floor(hours / 24);
  if (hours < 192) return hours % 24 ? `${days}d${hours % 24}h` : `${days}d`;
  if (days < 730) return `${days}d`;
  const years = Math.floor(days / 365);
  return years < 8 && days % 365 ? `${years}y${days % 365}d` : `${years}y`;
}

export function clock(milliseconds) {
  const time = new Date(milliseconds);
  const two = (number) => String(number).padStart(2, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${String(time.getMilliseconds()).padStart(3, "0")}`;
}

export const fullName = (entry) => (entry.namespace ? `${entry.namespace}/${entry.name}` : entry.name);

// The fields that changed, old and new.
export function changes(entry) {
  const list = element("ul", { class: "changes" });
  for (const change of entry.changes ?? []) {
    list.append(
      element(
        "li",
        {},
        element("code", {}, change.path),
        " ",
        change.old === null ? element("ins", {}, `+ ${change.new}`) : null,
        change.new === null ? element("del", { class: "removed" }, `− ${change.old}`) : null,
        change.old !== null && change.new !== null ? element("del", {}, change.old) : null,
        change.old !== null && change.new !== null ? " → " : null,
        change.old !== null && change.new !== null ? element("ins", {}, change.new) : null,
      ),
    );
  }
  if (entry.more) list.append(element("li", { class: "dim" }, `and ${entry.more} more fields`));
  if (entry.folded) list.append(element("li", { class: "dim" }, `${entry.folded} more: versions, managed fields, heartbeats`));
  return list;
}
