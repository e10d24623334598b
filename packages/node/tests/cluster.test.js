// The guarantees of a cluster.

import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { CoreV1Api, KubeConfig } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { Refused, Watchkeeper } from "watchkeeper";

function clientOf(cluster) {
  const config = new KubeConfig();
  config.loadFromFile(cluster.kubeconfig);
  return config.makeApiClient(CoreV1Api);
}

test("snapshots are restored, time is advanced, idleness is awaited", async () => {
  const cluster = await Watchkeeper.start();
  const core = clientOf(cluster);
  const namespace = "default";
  const create = (name) => core.createNamespacedConfigMap({ namespace, body: { metadata: { name } } });
  await create("a");
  const snapshot = await cluster.snapshot();
  await create("b");
  await snapshot.restore();
  const { items } = await core.listNamespacedConfigMap({ namespace });
  expect(items.map((item) => item.metadata.name)).toEqual(["a"]);
  await snapshot.forget();
  await expect(snapshot.restore()).rejects.toBeInstanceOf(Refused);

  const frozen = await cluster.clock.freeze();
  expect(await cluster.clock.now()).toEqual(frozen);
  const moved = await cluster.clock.advance("90s");
  expect(moved - frozen).toBe(90_000);
  await cluster.clock.thaw();

  const fault = await cluster.faults.add("forbid", { times: null, resource: "configmaps" });
  await fault.remove();
  await create("c");
  await cluster.waitIdle({ quiet: 5 });
  await cluster.compact();
  await cluster.stop();
  expect(existsSync(cluster.kubeconfig)).toBe(false);
});

test("pods run with the simulator", async () => {
  const cluster = await Watchkeeper.start({ simulator: true });
  const core = clientOf(cluster);
  const pod = { name: "p", namespace: "default" };
  const spec = { containers: [{ name: "c", image: "i" }] };
  await core.createNamespacedPod({ namespace: "default", body: { metadata: { name: "p" }, spec } });
  while ((await core.readNamespacedPod(pod)).status.phase !== "Running") await cluster.clock.advance(1000);
  await cluster.stop();
});

test("a server that cannot start reports why", async () => {
  await expect(Watchkeeper.start({ args: ["--no-such-flag"] })).rejects.toThrow(/did not start: .*--no-such-flag/s);
  await expect(Watchkeeper.start({ program: "/nowhere/watchkeeper" })).rejects.toThrow(/ENOENT/);
});

test("a server stops with the process that started it", async () => {
  const program = `
    import { Watchkeeper } from "watchkeeper";
    import { readFileSync } from "node:fs";
    await Watchkeeper.start();
    const children = readFileSync(\`/proc/\${process.pid}/task/\${process.pid}/children\`, "utf8");
    process.stdout.write(children, () => process.kill(process.pid, "SIGKILL"));
  `;
  const here = fileURLToPath(new URL(".", import.meta.url));
  const words = ["--input-type=module", "--eval", program];
  const children = await new Promise((resolve) => {
    execFile(process.execPath, words, { cwd: here }, (_, printed) => resolve(printed));
  });
  const [server] = children.trim().split(" ");
  expect(Number(server)).toBeGreaterThan(0);
  while (runs(server)) await new Promise(setImmediate);
});

function runs(id) {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${id}/stat`, "utf8"));
  } catch {
    return false;
  }
}
