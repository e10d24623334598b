// The same hooks, of node:test: no further package is needed.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";

import { useWatchkeeper } from "watchkeeper";

const cluster = useWatchkeeper({ before, after, afterEach });

test("a cluster is there", async () => {
  assert.deepEqual(await cluster().writes(), []);
  await cluster().faults.add("forbid");
});

test("the next test finds a new one", async () => {
  assert.deepEqual(await cluster().faults.fired(), []);
});
