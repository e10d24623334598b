// The page in a real browser: `node page.mjs LINK KUBECTL-LIKE-PROGRAM KUBECONFIG PICTURES`.
//
// Run by .ci/page, which installs playwright-core and finds Chromium.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { browser, check, finish, kindButton, nameless, open, rows } from "./browser.mjs";

const [link, program, kubeconfig, pictures] = process.argv.slice(2);
const run = (...words) => execFileSync(program, [...words, "--kubeconfig", kubeconfig], { encoding: "utf8" });
const annotate = (text) => run("annotate", "deployment/web", "-n", "shop", text);
const page = await open();
const picture = (name) => page.screenshot({ path: `${pictures}/${name}.png` });
const text = (selector) => page.locator(selector).innerText();
const deployments = (hasText) => rows(page, "deployments.apps", hasText);
const focused = () => page.evaluate(() => document.activeElement.dataset.id);

await check("the link opens the page, and the address no longer shows it", async () => {
  await page.goto(link);
  assert.equal(new URL(page.url()).pathname, "/");
});

await check("objects are shown with the server's columns, live", async () => {
  await kindButton(page, "deployments.apps").click();
  await deployments("3/3").waitFor();
  assert.deepEqual((await page.locator("th").allInnerTexts()).map((name) => name.toLowerCase()), ["namespace", "name", "ready", "up-to-date", "available", "age"]);
  run("scale", "deployment/web", "--replicas", "4", "-n", "shop");
  await deployments("4/4").waitFor();
  await picture("objects");
});

await check("a change shows its fields and who made it", async () => {
  await page.keyboard.press("2");
  const line = page.locator("#log > li", { hasText: "deployments.apps shop/web" }).filter({ hasText: "spec.replicas" });
  await line.filter({ hasText: /spec\.replicas\s+3\s+→\s+4/ }).filter({ hasText: " by " }).waitFor();
  await picture("changes");
});

await check("Events and heartbeats are shown if asked for", async () => {
  const events = page.locator("#log > li", { hasText: "events shop/web" });
  assert.equal(await events.count(), 0);
  await page.locator("#log-background", { hasText: "Show" }).click();
  await events.first().waitFor();
  await page.locator("#log-background", { hasText: "Hide" }).click();
  await events.first().waitFor({ state: "detached" });
});

await check("the focus stays on a change while others arrive", async () => {
  await page.locator("#log > li button").last().focus();
  const before = await focused();
  assert.ok(before);
  annotate("focus=kept");
  await page.locator("#log > li", { hasText: "focus" }).first().waitFor();
  assert.equal(await focused(), before);
});

await check("the timeline has a lane per object", async () => {
  await page.keyboard.press("3");
  // However long ago that was: sixteen times the minute that is shown at first.
  for (let times = 0; times < 4; times++) await page.keyboard.press("-");
  await page.locator("#lanes svg .mark.ADDED").first().waitFor();
  const seconds = async () => {
    const [from, to] = (await text("#timeline-note")).match(/\d\d:\d\d:\d\d/g).map((time) => time.split(":").reduce((sum, part) => sum * 60 + Number(part), 0));
    return (to - from + 86_400) % 86_400;
  };
  assert.equal(await seconds(), 960);
  await page.keyboard.press("+");
  assert.equal(await seconds(), 480);
  for (let times = 0; times < 3; times++) await page.keyboard.press("+");
  await picture("timeline");
});

await check("owners are trees", async () => {
  await page.keyboard.press("4");
  await page.locator("#forest details details li", { hasText: "Pod web-" }).first().waitFor();
  // A closed branch stays closed when something changes, which makes all branches anew.
  const branch = page.locator("#forest details", { hasText: "Deployment web" }).first();
  const click = () => branch.locator("summary").first().click({ position: { x: 3, y: 8 } });
  await click();
  await page.locator("#forest details:not([open])", { hasText: "Deployment web" }).waitFor();
  await page.evaluate(() => document.querySelectorAll("#forest section").forEach((section) => (section.className = "before")));
  annotate("branch=closed");
  await page.locator("#forest section.before").first().waitFor({ state: "detached" });
  await page.locator("#forest section", { hasText: "Deployment web" }).waitFor();
  assert.equal(await branch.getAttribute("open"), null);
  await click();
  await page.locator("#forest details[open]", { hasText: "Deployment web" }).waitFor();
  await picture("owners");
});

await check("everything can be reached with the keyboard", async () => {
  await page.keyboard.press("1");
  await page.keyboard.press("/");
  await page.keyboard.type("web");
  await page.keyboard.press("Escape");
  await deployments("web").waitFor();
  await page.keyboard.press("j");
  await page.locator("tbody tr:focus", { hasText: "web" }).waitFor();
  await page.keyboard.press("Enter");
  await page.locator("#yaml", { hasText: "kind: Deployment" }).waitFor();
  await page.locator("#detail-close:focus").waitFor();
  await picture("object");
  await page.keyboard.press("Escape");
  await page.locator("#detail").waitFor({ state: "hidden" });
  await page.locator("tbody tr:focus", { hasText: "web" }).waitFor();
});

await check("the object that is open is shown, whichever answer comes last", async () => {
  await page.locator("#filter").fill("");
  await kindButton(page, "pods").click();
  await rows(page, "pods", "web-").nth(1).waitFor();
  const [first, second] = await rows(page, "pods", "web-").locator(".name").allInnerTexts();
  const ofFirst = new RegExp(`/api/object.*name=${first}`);
  let arrive;
  const held = new Promise((release) => (arrive = release));
  await page.route(ofFirst, (route) => held.then(() => route.continue()));
  const late = page.waitForResponse(ofFirst);
  await rows(page, "pods", first).click();
  await rows(page, "pods", second).click();
  await page.locator("#yaml", { hasText: `name: ${second}` }).waitFor();
  arrive();
  await (await late).finished();
  await page.evaluate(() => fetch("/api/tree?namespace=shop"));
  assert.match(await text("#yaml"), new RegExp(`name: ${second}`));
  await page.unroute(ofFirst);
  await page.locator("#detail-close").click();
  await kindButton(page, "deployments.apps").click();
  await deployments("web").waitFor();
});

await check("the focus stays on its row when others come before it", async () => {
  run("create", "configmap", "focus-b", "-n", "shop");
  await kindButton(page, "configmaps").click();
  await page.locator("#filter").fill("focus-");
  await rows(page, "configmaps", "focus-b").focus();
  run("create", "configmap", "focus-a", "-n", "shop");
  await rows(page, "configmaps", "focus-a").waitFor();
  await page.locator("tbody tr:focus", { hasText: "focus-b" }).waitFor();
  await page.locator("#filter").fill("web");
  await kindButton(page, "deployments.apps").click();
  await deployments("4/4").waitFor();
});

await check("pause stops the view and not the log", async () => {
  await page.keyboard.press("p");
  assert.match(await text("#status"), /paused/);
  const before = await text("#status");
  run("scale", "deployment/web", "--replicas", "2", "-n", "shop");
  // News has arrived, with which the table of a page that is not paused is asked for again.
  await page.waitForFunction((status) => document.getElementById("status").textContent !== status, before);
  await deployments("4/4").waitFor();
  await page.keyboard.press("p");
  await deployments("2/2").waitFor();
});

await check("names, roles and contrast of controls are there for a screen reader", async () => {
  for (const role of ["banner", "navigation", "main", "tablist", "status"]) {
    assert.ok((await page.getByRole(role).count()) >= 1, role);
  }
  assert.deepEqual(await nameless(page), []);
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
  annotate("note=<img src=x onerror=document.title=1>");
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
