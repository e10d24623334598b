// Swim lanes: one line per object, a mark per change. Time runs to the right.

import { $, svg, clock, fullName, present } from "./dom.js";

const MAX_LANES = 200;
const SHORTEST = 1_000;
const LONGEST = 24 * 3_600_000;

// Beside its lane, a label needs room; in a narrow box it stands above the lane.
const NARROW = 640;
const BESIDE = { label: 290, lane: 22, line: 0, ticks: 4 };
const ABOVE = { label: 6, lane: 38, line: 14, ticks: 2 };
const CHARACTER = 7.2;
const MARGIN = 10;

export class Timeline {
  constructor(open) {
    this.open = open;
    this.span = 60_000;
    this.end = null; // null follows the current time
    this.entries = [];
    $("zoom-in").onclick = () => this.zoom(0.5);
    $("zoom-out").onclick = () => this.zoom(2);
    $("earlier").onclick = () => this.move(-0.5);
    $("later").onclick = () => this.move(0.5);
    $("now").onclick = () => this.go(null);
    $("goto").onchange = (event) => {
      const at = new Date(event.target.value).getTime();
      if (!Number.isNaN(at)) this.go(at + this.span / 2);
    };
    $("lanes").addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? 1.25 : 0.8);
      },
      { passive: false },
    );
    new ResizeObserver(() => this.draw()).observe($("lanes"));
  }

  // Shows this many milliseconds.
  fit(span) {
    this.span = Math.min(LONGEST, Math.max(SHORTEST, span));
    this.draw();
  }

  zoom(factor) {
    this.fit(this.span * factor);
  }

  move(share) {
    this.go((this.end ?? present.now()) + share * this.span);
  }

  go(end) {
    this.end = end !== null && end >= present.now() ? null : end;
    $("now").setAttribute("aria-pressed", String(this.end === null));
    this.draw();
  }

  show(entries) {
    this.entries = entries;
    this.draw();
  }

  draw() {
    const box = $("lanes");
    if (box.closest("[hidden]")) return;
    const end = this.end ?? present.now();
    const start = end - this.span;
    const lanes = this.lanes(start, end);
    const shown = lanes.slice(-MAX_LANES);
    box.replaceChildren(this.picture(shown, start, end, box.clientWidth));
    const hidden = lanes.length - shown.length;
    const times = `${clock(start).slice(0, 8)} – ${clock(end).slice(0, 8)}`;
    $("timeline-note").textContent =
      (lanes.length ? `${times}: ${lanes.length} objects changed` : `${times}: no changes`) +
      (hidden > 0 ? `, the newest ${shown.length} are shown` : "");
  }

  // The changes of each object in the window, ordered by the first one.
  lanes(start, end) {
    const lanes = new Map();
    for (const entry of this.entries) {
      if (entry.at < start || entry.at > end || !entry.name) continue;
      const id = `${entry.stream} ${fullName(entry)}`;
      if (!lanes.has(id)) lanes.set(id, []);
      lanes.get(id).push(entry);
    }
    return [...lanes.values()].sort((a, b) => a[0].at - b[0].at);
  }

  picture(lanes, start, end, width) {
    const layout = width < NARROW ? ABOVE : BESIDE;
    const x = (at) => layout.label + ((at - start) / this.span) * (width - layout.label - MARGIN);
    const height = lanes.length * layout.lane + 32;
    const label = `${lanes.length} objects between ${clock(start)} and ${clock(end)}; the tab Changes has the same as text`;
    const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    axis(picture, start, end, x, height, layout.ticks);
    lanes.forEach((lane, index) => picture.append(this.lane(lane, index * layout.lane + 32, x, width, layout)));
    return picture;
  }

  lane(entries, top, x, width, layout) {
    const y = top + layout.line;
    const [first, last] = [entries[0], entries[entries.length - 1]];
    const begin = first.type === "ADDED" ? x(first.at) : layout.label;
    const finish = last.type === "DELETED" ? x(last.at) : width - MARGIN;
    // The first and the last change of an object stay visible under many updates.
    const marks = [...entries.filter((entry) => entry.type === "MODIFIED"), ...entries.filter((entry) => entry.type !== "MODIFIED")];
    return svg(
      "g",
      {},
      this.label(first, top, layout.line ? width : layout.label),
      svg("line", { x1: layout.label, y1: y, x2: width - MARGIN, y2: y, class: "grid" }),
      svg("line", { x1: begin, y1: y, x2: finish, y2: y, class: "life" }),
      ...marks.map((entry) => this.mark(entry, x(entry.at), y)),
    );
  }

  label(entry, top, room) {
    const full = `${entry.stream.split(/[. ]/)[0]} ${fullName(entry)}`;
    const text = svg("text", { x: 0, y: top + 4, class: "label", onclick: () => this.open(entry) }, shortened(full, Math.floor(room / CHARACTER) - 1));
    text.append(svg("title", {}, full));
    return text;
  }

  mark(entry, x, y) {
    const mark = svg("circle", { cx: x, cy: y, r: 5, class: `mark ${entry.type}`, onclick: () => this.open(entry) });
    const fields = (entry.changes ?? []).slice(0, 5).map((change) => change.path).join(", ");
    mark.append(svg("title", {}, `${clock(entry.at)} ${entry.type} ${fullName(entry)} ${entry.who ? `by ${entry.who} ` : ""}${fields}`));
    return mark;
  }
}

function axis(picture, start, end, x, height, ticks) {
  for (let part = 0; part <= ticks; part++) {
    const at = start + (part / ticks) * (end - start);
    const anchor = part === 0 ? "start" : part === ticks ? "end" : "middle";
    picture.append(
      svg("line", { x1: x(at), y1: 16, x2: x(at), y2: height, class: "grid" }),
      svg("text", { x: x(at), y: 12, class: "tick", "text-anchor": anchor }, clock(at).slice(0, 8)),
    );
  }
}

// Cut in the middle: names of one owner differ at the end.
function shortened(text, length) {
  if (text.length <= length) return text;
  const tail = Math.floor(length / 2) - 1;
  return `${text.slice(0, length - tail - 1)}…${text.slice(text.length - tail)}`;
}
