// A recording on the page, and a page that may write: `node past-and-writes.mjs RECORDED-LINK WRITABLE-LINK PICTURES`.

import assert from "node:assert/strict";
import { check, finish, forgive, open } from "./browser.mjs";

const [recorded, writable, pictures] = process.argv.slice(2);
const page = await open();
const text = (selector) => page.locator(selector).innerText();
const picture = (name) => page.screenshot({ path: `${pictures}/${name}.png` });
const ready = (count) => page.locator("tbody tr", { hasText: `${count}/${count}` });

await check("a recording begins at its end", async () => {
  await page.goto(recorded);
  await page.locator("#kinds button", { hasText: "deployments.apps" }).click();
  await ready(2).waitFor();
  assert.equal(await page.locator("#moment").isVisible(), true);
  assert.equal(await page.locator("#moment-on").isDisabled(), true);
});

await check("the slider goes to its beginning, where nothing was there yet", async () => {
  await page.locator("#moment-slider").press("Home");
  await page.locator("#table-note", { hasText: /no deployments|^$/ }).waitFor({ state: "attached" });
  await page.waitForFunction(() => document.getElementById("moment-back").disabled);
  assert.match(await text("#moment-count"), /^\d of \d+ changes$/);
});

await check("a table of the previous moment is replaced", async () => {
  await page.locator("#moment-slider").press("End");
  await ready(2).waitFor();
  // The answer to a request that was sent before the page went to another moment, and arrives after it.
  const late = await new Promise((seen) => {
    page.route("**/api/table?*", async (route) => {
      const answer = await route.fetch();
      seen(await answer.text());
      return route.fulfill({ response: answer });
    });
  });
  assert.match(late, /"2\/2"/);
  await page.unroute("**/api/table?*");
  let wasLate = false;
  await page.route("**/api/table?*", (route) => {
    if (wasLate) return route.continue();
    wasLate = true;
    return route.fulfill({ contentType: "application/json", body: late });
  });
  await page.locator("#moment-slider").press("Home");
  // Sooner than the next message of the stream, which comes after five quiet seconds and would hide the fault.
  await ready(2).waitFor({ state: "detached", timeout: 3_000 });
  assert.equal(wasLate, true);
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

await check("a time of the past shows the cluster of then, its changes and its timeline", async () => {
  await page.locator("#moment-slider").press("End");
  await ready(2).waitFor();
  const all = await text("#moment-count");
  // The last scaling, to two, is not yet in the middle.
  await page.locator("#moment-slider").evaluate((slider) => {
    slider.value = (Number(slider.min) + Number(slider.max)) / 2;
    slider.dispatchEvent(new Event("change"));
  });
  await page.waitForFunction((count) => document.getElementById("moment-count").textContent !== count, all);
  await page.locator("tbody tr", { hasText: "web" }).waitFor();
  await picture("recording");
  await page.locator("#tab-timeline").click();
  await page.locator("#lanes svg .mark").first().waitFor();
  assert.equal(await page.locator("#pause").isVisible(), false);
  await page.emulateMedia({ colorScheme: "dark" });
  await picture("recording-timeline-dark");
  await page.setViewportSize({ width: 390, height: 800 });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 390));
  await page.waitForFunction(() => document.querySelector("#lanes svg").clientWidth <= 390);
  const beyond = await page.locator("#lanes svg .mark, #lanes svg .label").evaluateAll((marks) => marks.filter((mark) => mark.getBoundingClientRect().right > 390).length);
  assert.equal(beyond, 0, "nothing of the timeline is cut off");
  await picture("recording-phone");
  await page.setViewportSize({ width: 1200, height: 720 });
  await page.emulateMedia({ colorScheme: "light" });
});

await check("a recording cannot be written to", async () => {
  await page.locator("#tab-objects").click();
  await page.locator("tbody tr", { hasText: "web" }).click();
  await page.locator("#yaml", { hasText: "kind: Deployment" }).waitFor();
  assert.equal(await page.locator("#writes").isVisible(), false);
});

await check("a row opens the object it shows while the table of another kind is on its way", async () => {
  await page.goto(writable);
  await ready(1).first().waitFor();
  let arrive;
  const released = new Promise((release) => (arrive = release));
  await page.route(/\/api\/table\?kind=deployments/, (route) => released.then(() => route.continue()));
  await page.locator("#kinds button", { hasText: "deployments.apps" }).click();
  await ready(1).first().click();
  assert.match(await text("#detail-title"), /^pods /);
  arrive();
  await page.locator("#detail-close").click();
  await ready(2).waitFor();
  await page.unroute(/\/api\/table\?kind=deployments/);
});

await check("a deployment is scaled on a page that may write", async () => {
  await page.locator("#kinds button", { hasText: "deployments.apps" }).click();
  // Until its table has arrived, the pods are shown, whose names have "web" in them as well.
  await ready(2).click();
  await page.locator("#scale").click();
  await page.locator("#replicas").fill("3");
  await picture("scale");
  await page.locator("#confirm-do").click();
  await ready(3).waitFor();
});

await check("an edit writes what was changed", async () => {
  await page.locator("#edit").click();
  const yaml = await page.locator("#editor").inputValue();
  await page.locator("#editor").fill(yaml.replace("replicas: 3", "replicas: 1"));
  await picture("edit");
  await page.locator("#edit-save").click();
  await ready(1).waitFor();
  await page.locator("#write-note", { hasText: "done" }).waitFor();
});

await check("an edit that is no YAML says so and changes nothing", async () => {
  await page.locator("#edit").click();
  await page.locator("#editor").fill("a: [1");
  await page.locator("#edit-save").click();
  await page.locator("#write-note", { hasText: "the YAML cannot be read" }).waitFor();
  forgive();
  await page.locator("#edit-cancel").click();
});

await check("a delete asks first", async () => {
  await page.locator("#delete").click();
  await page.keyboard.press("Escape");
  assert.equal(await ready(1).count(), 1);
  await page.locator("#delete").click();
  await page.locator("#confirm-do").click();
  await page.locator("#table-note", { hasText: "no deployments.apps" }).waitFor();
});

await check("every control has a name", async () => {
  const nameless = await page.evaluate(() => [...document.querySelectorAll("button, input, select, textarea")].filter((control) => !(control.textContent || control.labels?.length || control.getAttribute("aria-label"))).map((control) => control.id));
  assert.deepEqual(nameless, []);
});

await finish();
