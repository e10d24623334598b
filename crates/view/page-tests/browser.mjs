// A page in Chromium, and checks that are counted. Used by the scripts beside it, which .ci/page runs.

import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

export const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });
const complaints = [];

// A fresh browser window; whatever its console complains about fails the run.
export async function open() {
  const context = await browser.newContext({ viewport: { width: 1200, height: 720 }, colorScheme: "light" });
  const page = await context.newPage();
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  return page;
}

// Drops complaints that a check has provoked on purpose.
export const forgive = () => complaints.splice(0);

let passed = 0;
export async function check(name, body) {
  await body();
  passed += 1;
  console.log(`ok ${passed} ${name}`);
}

export async function finish() {
  await browser.close();
  assert.deepEqual(complaints, []);
  console.log(`${passed} passed, 0 failed`);
}
