// The same hooks with node:test, which needs no further package.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";

import { useWatchkeeper } from "watchkeeper";

const cluster = useWatchkeeper({ before, after, afterEach });

test("a cluster is available", async () => {
  assert.deepEqual(await cluster().writes(), []);
  await cluster().faults.add("forbid");
});

test("the next test has a reset cluster", async () => {
  assert.deepEqual(await cluster().faults.fired(), []);
});
