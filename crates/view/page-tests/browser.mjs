// A page in Chromium, and checks that are counted. Used by the scripts beside it, which .ci/page runs.
//
// No check depends on time: whatever the page shows some time after an action is waited for, and rows are those of a
// named table, since the table of the kind before stays until the next one has arrived.

import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });
const complaints = [];
const forgiven = [];

// A fresh browser window; whatever its console complains about fails the run.
export async function open() {
  const context = await browser.newContext({ viewport: { width: 1200, height: 720 }, colorScheme: "light" });
  const page = await context.newPage();
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  return page;
}

// Complaints that a check provokes on purpose, whenever they arrive.
export const forgive = (pattern) => forgiven.push(pattern);

// The rows of the table of a kind that have a text. There are none while the table of another kind is shown.
export const rows = (page, kind, hasText) => page.getByRole("table", { name: kind, exact: true }).locator("tbody tr", { hasText });

// The button that chooses a kind.
export const kindButton = (page, name) => page.locator(`#kinds button[data-id="${name}"]`);

// Controls without a name, for which a screen reader has no word.
export const nameless = (page) =>
  page.evaluate(() => {
    const isNamed = (control) => control.textContent || control.labels?.length || control.getAttribute("aria-label");
    return [...document.querySelectorAll("button, input, select, textarea")].filter((control) => !isNamed(control)).map((control) => control.id);
  });

let passed = 0;
export async function check(name, body) {
  await body();
  passed += 1;
  console.log(`ok ${passed} ${name}`);
}

export async function finish() {
  await browser.close();
  const isForgiven = (text) => forgiven.some((pattern) => pattern.test(text));
  assert.deepEqual(complaints.filter((text) => !isForgiven(text)), []);
  console.log(`${passed} passed, 0 failed`);
}
