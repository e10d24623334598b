// The page in a real browser: `node page.mjs LINK KUBECTL-LIKE-PROGRAM KUBECONFIG PICTURES`.
//
// Run by .ci/page, which installs playwright-core and finds Chromium.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { browser, check, finish, open } from "./browser.mjs";

const [link, program, kubeconfig, pictures] = process.argv.slice(2);
const run = (...words) => execFileSync(program, [...words, "--kubeconfig", kubeconfig], { encoding: "utf8" });
const page = await open();
const picture = (name) => page.screenshot({ path: `${pictures}/${name}.png` });
const text = (selector) => page.locator(selector).innerText();

await check("the link opens the page, and the address no longer shows it", async () => {
  await page.goto(link);
  assert.equal(new URL(page.url()).pathname, "/");
});

await check("objects are shown with the server's columns, live", async () => {
  await page.locator("#kinds button", { hasText: "deployments.apps" }).click();
  await page.locator("tbody tr", { hasText: "web" }).waitFor();
  assert.deepEqual((await page.locator("th").allInnerTexts()).map((name) => name.toLowerCase()), ["namespace", "name", "ready", "up-to-date", "available", "age"]);
  run("scale", "deployment/web", "--replicas", "4", "-n", "shop");
  await page.locator("tbody tr", { hasText: "4/4" }).waitFor();
  await picture("objects");
});

await check("a change shows its fields and who made it", async () => {
  await page.keyboard.press("2");
  const line = page.locator("#log > li", { hasText: "deployments.apps shop/web" }).filter({ hasText: "spec.replicas" });
  await line.waitFor();
  assert.match(await line.innerText(), /spec\.replicas\s+3\s+→\s+4/);
  await picture("changes");
});

await check("Events and heartbeats are shown if asked for", async () => {
  const events = page.locator("#log > li", { hasText: "events shop/web" });
  assert.equal(await events.count(), 0);
  await page.locator("#log-background").click();
  await events.first().waitFor();
  await page.locator("#log-background", { hasText: "Hide" }).click();
  await events.first().waitFor({ state: "detached" });
});

await check("the focus stays on a change while others arrive", async () => {
  const link = page.locator("#log > li button").first();
  await link.focus();
  const focused = await link.innerText();
  run("annotate", "deployment/web", "-n", "shop", "focus=kept");
  await page.locator("#log > li", { hasText: "focus" }).first().waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.innerText), focused);
});

await check("the timeline has a lane per object", async () => {
  await page.keyboard.press("3");
  await page.locator("#lanes svg .mark.ADDED").first().waitFor();
  const span = await text("#timeline-note");
  await page.keyboard.press("+");
  await page.waitForFunction((before) => document.getElementById("timeline-note").innerText.slice(0, 8) !== before, span.slice(0, 8));
  await picture("timeline");
});

await check("owners are trees", async () => {
  await page.keyboard.press("4");
  await page.locator("#forest details details li", { hasText: "Pod web-" }).first().waitFor();
  // A closed branch stays closed when something changes.
  const branch = page.locator("#forest details", { hasText: "Deployment web" }).first();
  await branch.locator("summary").first().click({ position: { x: 3, y: 8 } });
  run("annotate", "deployment/web", "-n", "shop", "branch=closed");
  await page.waitForResponse((answer) => answer.url().includes("/api/tree"));
  assert.equal(await branch.getAttribute("open"), null);
  await branch.locator("summary").first().click({ position: { x: 3, y: 8 } });
  await picture("owners");
});

await check("everything can be reached with the keyboard", async () => {
  await page.keyboard.press("1");
  await page.keyboard.press("/");
  await page.keyboard.type("web");
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.locator("#yaml", { hasText: "kind: Deployment" }).waitFor();
  await picture("object");
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#detail").isHidden(), true);
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "TR");
});

await check("pause stops the view and not the log", async () => {
  await page.keyboard.press("p");
  assert.match(await text("#status"), /paused/);
  run("scale", "deployment/web", "--replicas", "2", "-n", "shop");
  await page.keyboard.press("p");
  await page.locator("tbody tr", { hasText: "2/2" }).waitFor();
});

await check("names, roles and contrast of controls are there for a screen reader", async () => {
  for (const role of ["banner", "navigation", "main", "tablist", "status"]) {
    assert.ok((await page.getByRole(role).count()) >= 1, role);
  }
  const nameless = await page.evaluate(() => [...document.querySelectorAll("button, input, select")].filter((control) => !(control.textContent || control.labels?.length || control.getAttribute("aria-label"))).length);
  assert.equal(nameless, 0);
});

await check("dark, and a phone's width without scrolling sideways", async () => {
  await page.emulateMedia({ colorScheme: "dark" });
  await picture("dark");
  await page.setViewportSize({ width: 390, height: 800 });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 390));
  await picture("phone");
  await page.keyboard.press("3");
  await page.waitForFunction(() => document.querySelector("#lanes svg")?.clientWidth <= 390);
  await picture("phone-timeline");
  await page.keyboard.press("1");
});

await check("nothing from the cluster becomes markup", async () => {
  run("annotate", "deployment/web", "-n", "shop", "note=<img src=x onerror=document.title=1>");
  await page.setViewportSize({ width: 1200, height: 720 });
  await page.keyboard.press("2");
  await page.locator("#filter").fill("note");
  await page.locator("#log > li", { hasText: "<img src=x" }).first().waitFor();
  assert.equal(await page.locator("#log img").count(), 0);
});

await check("another browser cannot use the link again", async () => {
  const other = await browser.newContext();
  const answer = await (await other.newPage()).goto(link);
  assert.equal(answer.status(), 403);
});

await finish();
