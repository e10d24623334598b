// A recording on the page, and a page that may write: `node past-and-writes.mjs RECORDED-LINK WRITABLE-LINK PICTURES`.

import assert from "node:assert/strict";
import { check, finish, forgive, kindButton, nameless, open, rows } from "./browser.mjs";

const [recorded, writable, pictures] = process.argv.slice(2);
const page = await open();
const text = (selector) => page.locator(selector).innerText();
const picture = (name) => page.screenshot({ path: `${pictures}/${name}.png` });
// The deployments as the recording names them, and then as the cluster does.
let kind = "deployments.apps in shop";
const ready = (count) => rows(page, kind, `${count}/${count}`);
const press = (key) => page.locator("#moment-slider").press(key);
const atStart = () => page.locator("#moment-back[disabled]").waitFor();
const atEnd = () => page.locator("#moment-on[disabled]").waitFor();

// When `isQuiet` is set, the page asks for nothing because a message or a second has come.
await page.addInitScript(() => {
  const every = window.setInterval;
  window.setInterval = (act, pause) => every(() => window.isQuiet || act(), pause);
  window.EventSource = class extends EventSource {
    constructor(path) {
      super(path);
      this.addEventListener("message", (event) => window.isQuiet && event.stopImmediatePropagation());
    }
  };
});

await check("a recording begins at its end", async () => {
  await page.goto(recorded);
  await kindButton(page, kind).click();
  await ready(2).waitFor();
  await page.locator("#moment").waitFor();
  await atEnd();
});

await check("the slider goes to its beginning, where nothing was ready yet", async () => {
  await press("Home");
  await atStart();
  assert.match(await text("#moment-count"), /^\d+ of \d+ changes$/);
  await ready(2).waitFor({ state: "detached" });
});

await check("a table of the previous moment is replaced", async () => {
  await press("End");
  await atEnd();
  await ready(2).waitFor();
  // The answer to a request that was sent before the page went to another moment, and arrives after it.
  let arrive, fetched;
  const [held, isFetched] = [new Promise((release) => (arrive = release)), new Promise((seen) => (fetched = seen))];
  let isHeld = false;
  await page.route("**/api/table?*", async (route) => {
    if (isHeld) return route.continue();
    isHeld = true;
    const answer = await route.fetch();
    fetched(await answer.text());
    await held;
    return route.fulfill({ response: answer });
  });
  assert.match(await isFetched, /"2\/2"/);
  await page.evaluate(() => (window.isQuiet = true));
  await press("Home");
  await atStart();
  arrive();
  await ready(2).waitFor({ state: "detached" });
  await page.evaluate(() => (window.isQuiet = false));
  await page.unroute("**/api/table?*");
});

await check("keys go from change to change", async () => {
  await page.locator("#main").focus();
  const before = await text("#moment-label");
  await page.keyboard.press(">");
  await page.waitForFunction((label) => document.getElementById("moment-label").textContent !== label, before);
  await page.keyboard.press("<");
  await page.waitForFunction((label) => document.getElementById("moment-label").textContent === label, before);
});

await check("every press of a key is one change", async () => {
  const all = await page.evaluate(async () => {
    const go = (where) => fetch("/api/go", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(where) }).then((answer) => answer.json());
    const counts = [(await go({ at: 0 })).changes];
    for (let step = 0; step < 4; step++) counts.push((await go({ step: 1 })).changes);
    await go({ at: 0 });
    return counts;
  });
  await press("Home");
  await atStart();
  await page.locator("#main").focus();
  for (let step = 0; step < 4; step++) await page.keyboard.press(">");
  await page.waitForFunction((last) => document.getElementById("moment-count").textContent.startsWith(`${last} of`), all[4]);
});

await check("a time of the past shows the cluster of then, its changes and its timeline", async () => {
  await press("End");
  await atEnd();
  await ready(2).waitFor();
  // The moment before the last scaling, from four to two.
  await page.evaluate(async (kind) => {
    const web = await (await fetch(`/api/object?${new URLSearchParams({ kind, namespace: "shop", name: "web" })}`)).json();
    const scaling = web.history.findLast((entry) => entry.changes.some((change) => change.path === "spec.replicas"));
    const slider = document.getElementById("moment-slider");
    slider.value = scaling.at - 1;
    slider.dispatchEvent(new Event("change"));
  }, kind);
  await ready(4).waitFor();
  await picture("recording");
  await page.locator("#tab-timeline").click();
  await page.locator("#lanes svg .mark").first().waitFor();
  await page.locator("#pause").waitFor({ state: "hidden" });
  await page.emulateMedia({ colorScheme: "dark" });
  await picture("recording-timeline-dark");
  await page.setViewportSize({ width: 390, height: 800 });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 390));
  await page.waitForFunction(() => document.querySelector("#lanes svg")?.clientWidth <= 390);
  const beyond = await page.locator("#lanes svg .mark, #lanes svg .label").evaluateAll((marks) => marks.filter((mark) => mark.getBoundingClientRect().right > 390).length);
  assert.equal(beyond, 0, "nothing of the timeline is cut off");
  await picture("recording-phone");
  await page.setViewportSize({ width: 1200, height: 720 });
  await page.emulateMedia({ colorScheme: "light" });
});

await check("a recording cannot be written to", async () => {
  await page.locator("#tab-objects").click();
  await ready(4).click();
  await page.locator("#yaml", { hasText: "kind: Deployment" }).waitFor();
  assert.equal(await page.locator("#writes").isVisible(), false);
});

await check("a row opens the object it shows while the table of another kind is on its way", async () => {
  await page.goto(writable);
  kind = "deployments.apps";
  const pods = rows(page, "pods", "1/1").first();
  await pods.waitFor();
  let arrive;
  const released = new Promise((release) => (arrive = release));
  await page.route(/\/api\/table\?kind=deployments/, (route) => released.then(() => route.continue()));
  await kindButton(page, kind).click();
  await pods.click();
  assert.match(await text("#detail-title"), /^pods /);
  arrive();
  await page.locator("#detail-close").click();
  await ready(2).waitFor();
  await page.unroute(/\/api\/table\?kind=deployments/);
});

await check("a deployment is scaled on a page that may write", async () => {
  await ready(2).click();
  await page.locator("#scale").click();
  await page.locator("#replicas").fill("3");
  await picture("scale");
  await page.locator("#confirm-do").click();
  await ready(3).waitFor();
});

await check("an edit writes what was changed, unless somebody else was faster", async () => {
  forgive(/status of 409/);
  const note = page.locator("#write-note", { hasText: /^done$|has been modified/ });
  for (let isConflict = true; isConflict; ) {
    await page.locator("#yaml", { hasText: /replicas: 3(.|\n)*readyReplicas: 3/ }).waitFor();
    await page.locator("#edit").click();
    const yaml = await page.locator("#editor").inputValue();
    await page.locator("#editor").fill(yaml.replace("replicas: 3", "replicas: 1"));
    await picture("edit");
    await page.locator("#edit-save").click();
    await note.waitFor();
    // The controller may have written meanwhile.
    isConflict = (await note.innerText()) !== "done";
    if (isConflict) await page.locator("#edit-cancel").click();
  }
  await ready(1).waitFor();
});

await check("an edit that is no YAML says so and changes nothing", async () => {
  forgive(/status of 400/);
  await page.locator("#edit").click();
  await page.locator("#editor").fill("a: [1");
  await page.locator("#edit-save").click();
  await page.locator("#write-note", { hasText: "the YAML cannot be read" }).waitFor();
  await page.locator("#edit-cancel").click();
  await ready(1).waitFor();
});

await check("a delete asks first", async () => {
  const written = [];
  page.on("request", (request) => request.url().endsWith("/api/write") && written.push(request.postDataJSON().action));
  await page.locator("#delete").click();
  await page.keyboard.press("Escape");
  await page.locator("#confirm").waitFor({ state: "hidden" });
  await page.locator("#delete").click();
  await page.locator("#confirm-do").click();
  await page.locator("#table-note", { hasText: "no deployments.apps" }).waitFor();
  assert.deepEqual(written, ["delete"]);
});

await check("every control has a name", async () => {
  assert.deepEqual(await nameless(page), []);
});

await finish();
