// One page: the objects of a cluster and their changes, live.

import { $, element, age, clock, fullName, changes, present, replaceKeepingFocus } from "./dom.js";
import { MomentBar } from "./moment.js";
import { Timeline } from "./timeline.js";
import { Writes } from "./writes.js";

const KEPT_ENTRIES = 5_000;
const SHOWN_ENTRIES = 300;
const PAGE = 100;
const TABS = ["objects", "events", "timeline", "owners"];

const state = { kinds: [], entries: [], kind: null, tab: "objects", paused: false, next: 0, missed: 0, offset: 0, row: 0, rowName: null, detail: null, opener: null, showsBackground: false, closedBranches: new Set() };
const timeline = new Timeline((entry) => openDetail(entry.stream, entry.namespace, entry.name, true));
const moment = new MomentBar(post, () => loadTable());
const writes = new Writes(() => state.detail, post, () => refreshDetail());

// The stream of kinds and changes. The browser connects again by itself; `after` says what it has seen.
function connect() {
  const source = new EventSource(`/api/stream?after=${state.next}`);
  source.onmessage = (message) => {
    const news = JSON.parse(message.data);
    if (news.reset) [state.entries, state.missed] = [[], 0];
    if (news.recording && !moment.isShown) timeline.fit(news.recording.to - news.recording.from);
    moment.show(news.recording);
    state.next = news.next;
    state.missed += news.missed;
    state.kinds = news.kinds;
    state.entries.push(...news.entries);
    state.missed += state.entries.splice(0, Math.max(0, state.entries.length - KEPT_ENTRIES)).length;
    if (!state.kind && state.kinds.length) choose(location.hash.slice(1) || firstKind());
    if (!state.paused) show(news.entries.length > 0 || news.reset);
    status();
  };
  source.onerror = () => {
    $("status").textContent = "disconnected from watchkeeper; reconnecting…";
    source.close();
    setTimeout(connect, 1_000);
  };
}

const firstKind = () => (state.kinds.find((kind) => kind.name === "pods") ?? state.kinds[0]).name;

function status() {
  const count = (wanted) => state.kinds.filter((kind) => kind.state === wanted).length;
  const objects = state.kinds.reduce((sum, kind) => sum + kind.count, 0);
  const rate = state.kinds.reduce((sum, kind) => sum + kind.rate, 0);
  const parts = [`${objects} objects of ${state.kinds.length} kinds`];
  if (!moment.isShown) parts.push(`${rate.toFixed(1)} changes/s`);
  if (count("syncing")) parts.push(`${count("syncing")} syncing`);
  if (count("failing")) parts.push(`${count("failing")} failing`);
  if (state.paused) parts.push("paused");
  const text = parts.join(" · ");
  if ($("status").textContent !== text) $("status").textContent = text;
}

function show(hasNews) {
  showKinds();
  showNamespaces();
  if (state.tab === "objects") loadTable();
  if (state.tab === "events" && hasNews) showLog();
  if (state.tab === "timeline") showTimeline();
  if (state.tab === "owners" && hasNews) loadOwners();
  if (state.detail && hasNews) refreshDetail();
}

function showKinds() {
  const rows = state.kinds.filter((kind) => kind.count || kind.events || kind.state !== "live" || kind.name === state.kind).map((kind) => {
    const note = kind.state === "failing" ? kind.reason : kind.state;
    const button = element(
      "button",
      { type: "button", "aria-current": kind.name === state.kind ? "true" : null, title: `${kind.name}: ${note}`, "data-id": kind.name, onclick: () => choose(kind.name) },
      element("span", { class: `dot ${kind.state}`, role: "img", "aria-label": kind.state }),
      element("span", { class: "kind" }, kind.name),
      element("span", { class: "rate" }, kind.rate >= 0.1 ? `${kind.rate.toFixed(1)}/s` : ""),
      element("span", { class: "count" }, String(kind.count)),
    );
    return element("li", {}, button, kind.state === "failing" ? element("p", { class: "reason" }, kind.reason) : null);
  });
  replaceKeepingFocus($("kinds"), rows);
  const select = $("kind-select");
  if (select.options.length !== state.kinds.length) {
    select.replaceChildren(...state.kinds.map((kind) => element("option", { value: kind.name }, kind.name)));
  }
  select.value = state.kind;
}

function showNamespaces() {
  const known = new Set(state.entries.map((entry) => entry.namespace).filter(Boolean));
  for (const name of state.namespaces ?? []) known.add(name);
  const select = $("namespace");
  const wanted = ["", ...[...known].sort()];
  if (wanted.length !== select.options.length) {
    const value = select.value;
    select.replaceChildren(...wanted.map((name) => element("option", { value: name }, name || "all")));
    select.value = value;
  }
}

async function fetchJson(path, parameters) {
  const answer = await fetch(`${path}?${new URLSearchParams(parameters)}`);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

// Sends JSON. The server takes it from this page only.
async function post(path, body) {
  const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

function choose(kind) {
  state.kind = kind;
  state.offset = 0;
  state.row = 0;
  history.replaceState(null, "", `#${kind}`);
  show(true);
}

// Runs at most once at a time, and once more if something has happened since: another kind, another moment, or a second
// has passed.
function oneAtATime(load) {
  let [isRunning, again] = [false, false];
  return async function run() {
    again = isRunning;
    if (isRunning) return;
    isRunning = true;
    await load();
    isRunning = false;
    if (again) run();
  };
}

const loadTable = oneAtATime(async () => {
  if (!state.kind) return;
  const asked = state.kind;
  try {
    const table = await fetchJson("/api/table", { kind: asked, namespace: $("namespace").value, filter: $("filter").value, offset: state.offset, limit: PAGE });
    if (asked === state.kind) showTable(table);
    if (!table.synced && !table.failure) setTimeout(loadTable, 150);
  } catch (error) {
    if (asked === state.kind) $("table-note").textContent = error.message;
  }
});

function showTable(table) {
  const columns = (table.columns ?? []).map((column, index) => ({ ...column, index })).filter((column) => column.priority === 0);
  const spread = table.rows.some((row) => row.namespace) && !$("namespace").value;
  const head = columns.map((column) => element("th", { scope: "col", title: column.description }, column.name));
  if (spread) head.unshift(element("th", { scope: "col" }, "Namespace"));
  $("table").caption.textContent = state.kind;
  $("table").tHead.replaceChildren(element("tr", {}, ...head));
  const body = $("table").tBodies[0];
  const hadFocus = body.contains(document.activeElement);
  // The focus stays on its object, wherever that is now.
  const same = hadFocus ? table.rows.findIndex((row) => fullName(row) === state.rowName) : -1;
  state.row = same >= 0 ? same : Math.min(state.row, Math.max(0, table.rows.length - 1));
  // The kind of these rows. They stay until the table of the next chosen kind has arrived.
  const kind = state.kind;
  const rows = table.rows.map((row, number) => {
    const cells = columns.map((column) => {
      const text = column.index === row.age && row.created ? age(present.now() - row.created) : String(row.cells[column.index] ?? "");
      return element("td", { role: "cell", class: column.type === "integer" ? "number" : column.name === "Name" ? "name" : "", "data-label": column.name }, text);
    });
    if (spread) cells.unshift(element("td", { role: "cell", class: "namespace" }, row.namespace));
    return element("tr", { role: "row", class: isOpen(row) ? "open" : "", tabindex: number === state.row ? "0" : "-1", onclick: () => openDetail(kind, row.namespace, row.name), onfocus: () => ([state.row, state.rowName] = [number, fullName(row)]) }, ...cells);
  });
  body.replaceChildren(...rows);
  if (hadFocus) rows[state.row]?.focus({ preventScroll: true });
  $("table-note").textContent = table.failure ?? (!table.synced ? "loading…" : table.total ? "" : `no ${state.kind}${narrowedBy()}`);
  const last = Math.min(state.offset + PAGE, table.total);
  $("page-note").textContent = table.total ? `${state.offset + 1}–${last} of ${table.total}` : "";
  $("page-back").disabled = state.offset === 0;
  $("page-on").disabled = last >= table.total;
  state.namespaces = new Set([...(state.namespaces ?? []), ...table.rows.map((row) => row.namespace).filter(Boolean)]);
}

const isOpen = (row) => state.detail?.kind === state.kind && state.detail.name === row.name && state.detail.namespace === row.namespace;

// The choices that may have left something out, as the end of a sentence.
const narrowedBy = () => ($("filter").value ? " match the filter" : $("namespace").value ? ` in ${$("namespace").value}` : "");

// Kubernetes Events, metrics and heartbeats: most of what changes in a quiet cluster.
const isBackground = (entry) => /^events(\.|$)|\.metrics\.k8s\.io$/.test(entry.stream.split(" ")[0]) || (entry.type === "MODIFIED" && !entry.changes?.length);

// The changes to show. The button says how many background changes are left out.
function wantedEntries(button) {
  const matching = state.entries.filter(matchesFilter);
  const wanted = matching.filter((entry) => !isBackground(entry));
  const background = matching.length - wanted.length;
  button.hidden = background === 0;
  button.textContent = `${state.showsBackground ? "Hide" : "Show"} ${background} Events and heartbeats`;
  return state.showsBackground ? matching : wanted;
}

const matchesFilter = (entry) => {
  const namespace = $("namespace").value;
  const filter = $("filter").value.toLowerCase();
  if (namespace && entry.namespace !== namespace) return false;
  if (!filter) return true;
  const text = `${entry.stream} ${entry.type} ${entry.namespace ?? ""}/${entry.name ?? ""} ${entry.who ?? ""} ${(entry.changes ?? []).map((change) => change.path).join(" ")}`;
  return text.toLowerCase().includes(filter);
};

function logLine(entry) {
  const what = entry.name
    ? element("button", { type: "button", class: "link", "data-id": entry.sequence, onclick: () => openDetail(entry.stream, entry.namespace, entry.name, true) }, `${entry.stream} ${fullName(entry)}`)
    : element("span", {}, `${entry.stream}: ${entry.reason}`);
  return element(
    "li",
    { class: entry.type },
    element("time", { datetime: new Date(entry.at).toISOString() }, clock(entry.at)),
    " ",
    element("strong", {}, entry.type),
    " ",
    what,
    entry.who ? element("span", { class: "dim" }, ` by ${entry.who}`) : null,
    entry.inferred ? element("span", { class: "dim" }, " (found by a new list; final state unknown)") : null,
    entry.type === "MODIFIED" ? changes(entry) : null,
  );
}

function showLog() {
  const wanted = wantedEntries($("log-background"));
  const shown = wanted.slice(-SHOWN_ENTRIES).reverse();
  replaceKeepingFocus($("log"), shown.map(logLine));
  const parts = [`${wanted.length} changes${narrowedBy()}`];
  if (shown.length < wanted.length) parts.push(`the newest ${shown.length} are shown`);
  if (state.missed) parts.push(`${state.missed} older ones were dropped`);
  $("log-note").textContent = wanted.length ? parts.join(", ") : `no changes${narrowedBy()} yet`;
}

const showTimeline = () => timeline.show(wantedEntries($("timeline-background")));

function toggleBackground() {
  state.showsBackground = !state.showsBackground;
  show(true);
}

function branch(node) {
  const id = `${node.stream} ${fullName(node)}`;
  const button = element("button", { type: "button", class: "link", "data-id": id, onclick: () => openDetail(node.stream, node.namespace, node.name) }, `${node.kind} ${node.name}`);
  if (!node.children.length) return element("li", { class: "leaf" }, button);
  const remember = (event) => state.closedBranches[event.target.open ? "delete" : "add"](id);
  return element("li", {}, element("details", { open: state.closedBranches.has(id) ? null : "", ontoggle: remember }, element("summary", {}, button, element("span", { class: "dim" }, ` ${node.children.length}`)), element("ul", {}, ...node.children.map(branch))));
}

const loadOwners = oneAtATime(async () => {
  try {
    showOwners(await fetchJson("/api/tree", { namespace: $("namespace").value }));
  } catch (error) {
    $("owners-note").textContent = error.message;
  }
});

function showOwners(forest) {
  const filter = $("filter").value.toLowerCase();
  const has = (node) => `${node.kind} ${node.name}`.toLowerCase().includes(filter) || node.children.some(has);
  const roots = forest.roots.filter(has);
  const spaces = Map.groupBy ? Map.groupBy(roots, (root) => root.namespace) : roots.reduce((map, root) => map.set(root.namespace, [...(map.get(root.namespace) ?? []), root]), new Map());
  replaceKeepingFocus($("forest"), [...spaces].map(([namespace, trees]) => element("section", {}, element("h3", {}, namespace || "cluster"), element("ul", { class: "tree" }, ...trees.map(branch)))));
  const note = forest.left_out ? `${forest.left_out} more objects are not shown` : "";
  $("owners-note").textContent = roots.length ? note : `no owners or owned objects${narrowedBy()}`;
}

async function openDetail(stream, namespace, name, withHistory = false) {
  if (writes.isEditing) writes.leave();
  if (!state.detail) state.opener = document.activeElement;
  state.detail = { kind: stream, namespace: namespace ?? "", name };
  $("detail").hidden = false;
  $("detail-title").textContent = `${stream} ${fullName({ namespace, name })}`;
  showObject(null, "loading…");
  showHistory(withHistory);
  loadTable();
  await refreshDetail();
  $("detail-close").focus();
}

async function refreshDetail() {
  const asked = state.detail;
  // By the time of the answer, another object may be open.
  const showIfOpen = (found, text) => asked === state.detail && showObject(found, text);
  try {
    const found = await fetchJson("/api/object", asked);
    showIfOpen(found, found.yaml ?? "This object was deleted. Its recent changes are in the history.");
  } catch (error) {
    showIfOpen(null, error.message);
  }
}

function showObject(found, text) {
  writes.show(found);
  // Text that is the same stays, with the selection in it.
  if ($("yaml").textContent !== text) $("yaml").textContent = text;
  replaceKeepingFocus($("history"), (found?.history ?? []).reverse().map(logLine));
  if (found && !found.history.length) $("history").append(element("li", {}, "No changes since watchkeeper started to watch."));
}

function showHistory(wanted) {
  if (writes.isEditing) writes.leave();
  $("history").hidden = !wanted;
  $("yaml").hidden = wanted;
  $("show-history").setAttribute("aria-pressed", String(wanted));
  $("show-yaml").setAttribute("aria-pressed", String(!wanted));
}

function closeDetail() {
  if (writes.isEditing) writes.leave();
  $("detail").hidden = true;
  state.detail = null;
  // Lists are built anew when something changes: what opened the object may be gone.
  const row = state.tab === "objects" ? $("table").tBodies[0].rows[state.row] : null;
  (row ?? (state.opener?.isConnected ? state.opener : $(`tab-${state.tab}`))).focus();
}

function openTab(name) {
  state.tab = name;
  for (const tab of TABS) {
    $(tab).hidden = tab !== name;
    $(`tab-${tab}`).setAttribute("aria-selected", String(tab === name));
    $(`tab-${tab}`).tabIndex = tab === name ? 0 : -1;
  }
  show(true);
}

function pause() {
  state.paused = !state.paused;
  $("pause").setAttribute("aria-pressed", String(state.paused));
  $("pause").textContent = state.paused ? "Resume" : "Pause";
  timeline.go(state.paused ? present.now() - 1 : null);
  if (!state.paused) show(true);
  status();
}

function moveRow(step) {
  const rows = $("table").tBodies[0].rows;
  if (!rows.length) return;
  state.row = Math.min(rows.length - 1, Math.max(0, state.row + step));
  rows[state.row].focus();
}

function moveKind(step) {
  const shown = [...$("kinds").querySelectorAll(".kind")].map((span) => span.textContent);
  const next = shown[shown.indexOf(state.kind) + step];
  if (next) choose(next);
}

function turn(step) {
  state.offset = Math.max(0, state.offset + step * PAGE);
  loadTable();
}

const KEYS = {
  "/": () => $("filter").focus(),
  j: () => moveRow(1),
  k: () => moveRow(-1),
  ArrowDown: () => moveRow(1),
  ArrowUp: () => moveRow(-1),
  "[": () => moveKind(-1),
  "]": () => moveKind(1),
  p: () => !moment.isShown && pause(),
  "+": () => timeline.zoom(0.5),
  "-": () => timeline.zoom(2),
  ArrowLeft: () => state.tab === "timeline" && timeline.move(-0.5),
  ArrowRight: () => state.tab === "timeline" && timeline.move(0.5),
  "<": () => moment.isShown && moment.go({ step: -1 }),
  ">": () => moment.isShown && moment.go({ step: 1 }),
  "?": () => $("keys").showModal(),
  Escape: closeDetail,
};
TABS.forEach((name, index) => (KEYS[String(index + 1)] = () => openTab(name)));

document.addEventListener("keydown", (event) => {
  const inField = event.target.matches("input, select, textarea");
  if (inField && event.key === "Escape") return event.target.blur();
  if (inField || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("[role=tab]") && ["ArrowLeft", "ArrowRight"].includes(event.key)) {
    const next = TABS[(TABS.indexOf(state.tab) + (event.key === "ArrowRight" ? 1 : TABS.length - 1)) % TABS.length];
    openTab(next);
    return $(`tab-${next}`).focus();
  }
  if (event.key === "Enter" && event.target.matches("tbody tr")) return event.target.click();
  if (event.key.startsWith("Arrow") && event.target.closest("#yaml, #history, #log, #forest")) return;
  const act = KEYS[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});

for (const name of TABS) $(`tab-${name}`).onclick = () => openTab(name);
$("pause").onclick = pause;
$("help").onclick = KEYS["?"];
$("detail-close").onclick = closeDetail;
for (const id of ["log-background", "timeline-background"]) $(id).onclick = toggleBackground;
$("show-yaml").onclick = () => showHistory(false);
$("show-history").onclick = () => showHistory(true);
$("page-back").onclick = () => turn(-1);
$("page-on").onclick = () => turn(1);
$("kind-select").onchange = (event) => choose(event.target.value);
for (const id of ["filter", "namespace"]) $(id).oninput = () => { state.offset = 0; show(true); };
setInterval(() => { if (!state.paused) { if (state.tab === "objects") loadTable(); if (state.tab === "timeline") timeline.draw(); } }, 1_000);
connect();
