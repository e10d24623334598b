// Swim lanes: one line per object, a mark per change. Time runs to the right.

import { $, svg, clock, fullName, present } from "./dom.js";

const LANE = 22;
const LABEL = 290;
const MAX_LANES = 200;
const SHORTEST = 1_000;
const LONGEST = 24 * 3_600_000;

export class Timeline {
  constructor(open) {
    this.open = open;
    this.span = 60_000;
    this.end = null; // null follows the present
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
  }

  zoom(factor) {
    this.span = Math.min(LONGEST, Math.max(SHORTEST, this.span * factor));
    this.draw();
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
    const lanes = new Map();
    for (const entry of this.entries) {
      if (entry.at < start || entry.at > end || !entry.name) continue;
      const id = `${entry.stream} ${fullName(entry)}`;
      if (!lanes.has(id)) lanes.set(id, []);
      lanes.get(id).push(entry);
    }
    const shown = [...lanes.values()].sort((a, b) => a[0].at - b[0].at).slice(-MAX_LANES);
    const width = Math.max(box.clientWidth - 20, 480);
    const x = (at) => LABEL + ((at - start) / this.span) * (width - LABEL - 10);
    const height = (shown.length + 1) * LANE + 10;
    const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${shown.length} objects between ${clock(start)} and ${clock(end)}; the tab Changes has the same as text` });
    this.axis(picture, start, end, x, height);
    shown.forEach((lane, index) => picture.append(this.lane(lane, (index + 1) * LANE + 10, x, width)));
    box.replaceChildren(picture);
    const hidden = lanes.size - shown.length;
    $("timeline-note").textContent =
      `${clock(start).slice(0, 8)} – ${clock(end).slice(0, 8)}: ${lanes.size} objects changed` +
      (hidden > 0 ? `, the ${hidden} that began first are not shown` : "");
  }

  axis(picture, start, end, x, height) {
    for (let part = 0; part <= 4; part++) {
      const at = start + (part / 4) * (end - start);
      picture.append(
        svg("line", { x1: x(at), y1: 16, x2: x(at), y2: height, class: "grid" }),
        svg("text", { x: x(at), y: 12, class: "tick", "text-anchor": part === 4 ? "end" : "middle" }, clock(at).slice(0, 8)),
      );
    }
  }

  lane(entries, y, x, width) {
    const first = entries[0];
    const group = svg("g", {});
    const label = `${first.stream.split(".")[0]} ${fullName(first)}`;
    group.append(
      svg("text", { x: 0, y: y + 4, class: "label" }, label.length > 42 ? `${label.slice(0, 41)}…` : label),
      svg("line", { x1: LABEL, y1: y, x2: width, y2: y, class: "grid" }),
    );
    const begin = entries[0].type === "ADDED" ? x(entries[0].at) : LABEL;
    const last = entries[entries.length - 1];
    const finish = last.type === "DELETED" ? x(last.at) : width - 10;
    group.append(svg("line", { x1: begin, y1: y, x2: finish, y2: y, class: "life" }));
    for (const entry of entries) {
      const mark = svg("circle", { cx: x(entry.at), cy: y, r: 5, class: `mark ${entry.type}`, onclick: () => this.open(entry) });
      const fields = (entry.changes ?? []).slice(0, 5).map((change) => change.path).join(", ");
      mark.append(svg("title", {}, `${clock(entry.at)} ${entry.type} ${fullName(entry)} ${entry.who ? `by ${entry.who} ` : ""}${fields}`));
      group.append(mark);
    }
    return group;
  }
}
