// A controller with controlled time, faults and a lost answer, with @kubernetes/client-node.

import { CoreV1Api, KubeConfig } from "@kubernetes/client-node";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { useWatchkeeper } from "watchkeeper";

import { Expirer } from "./expirer.js";

const cluster = useWatchkeeper({ beforeAll, afterAll, afterEach });
const namespace = "default";
let core;
let expirer;

beforeEach(async () => {
  const config = new KubeConfig();
  config.loadFromFile(cluster().kubeconfig);
  core = config.makeApiClient(CoreV1Api);
  expirer = new Expirer(config, () => cluster().clock.now());
  const body = { metadata: { name: "a", labels: { ttl: "3600" } }, data: { k: "1" } };
  await core.createNamespacedConfigMap({ namespace, body });
});

async function secrets() {
  const { items } = await core.listNamespacedSecret({ namespace });
  return items.map((secret) => secret.metadata.name);
}

async function change(text) {
  const found = await core.readNamespacedConfigMap({ name: "a", namespace });
  await core.replaceNamespacedConfigMap({ name: "a", namespace, body: { ...found, data: { k: text } } });
}

test("objects expire after their TTL", async () => {
  await expirer.reconcile();
  expect(await secrets()).toEqual(["a"]);
  await cluster().clock.advance("59m");
  await expirer.reconcile();
  expect(await secrets()).toEqual(["a"]);
  await cluster().clock.advance(60_000);
  await expirer.reconcile();
  expect(await secrets()).toEqual([]);
});

test("the second reconcile writes nothing", async () => {
  await expirer.reconcile();
  expect(await cluster().writes({ kind: "Secret" })).toHaveLength(1);
  await cluster().clearWrites();
  await expirer.reconcile();
  expect(await cluster().writes()).toEqual([]);
});

test.each([
  [409, "Conflict"],
  [500, "InternalError"],
])("what fails with %i is made good by the next reconcile", async (code, reason) => {
  await expirer.reconcile();
  await change("2");
  await cluster().faults.fail(code, { reason, verb: "update", resource: "secrets" });
  await expect(expirer.reconcile()).rejects.toMatchObject({ code });
  await expirer.reconcile();
  const { data } = await core.readNamespacedSecret({ name: "a", namespace });
  expect(data).toEqual({ k: "Mg==" });
  const fired = await cluster().faults.fired();
  expect(fired.map((fault) => fault.verb)).toEqual(["update"]);
});

test("a lost answer does not create two objects", async () => {
  await cluster().faults.loseAnswer({ verb: "create", resource: "secrets" });
  await expect(expirer.reconcile()).rejects.toThrow();
  // It was stored, though the answer was lost.
  await expirer.reconcile();
  expect(await secrets()).toEqual(["a"]);
  expect(await cluster().writes({ kind: "Secret", verb: "create" })).toHaveLength(1);
});

test("only the second write fails", async () => {
  await cluster().faults.fail(500, { nth: 2, verb: "update", resource: "configmaps" });
  await change("2");
  await expect(change("3")).rejects.toMatchObject({ code: 500 });
  await change("4");
});
