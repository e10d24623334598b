// The controller under test: copies the data of configmaps with the label `ttl` to a secret, and deletes both that many
// seconds after creation. It is an ordinary controller with @kubernetes/client-node and an injected clock.

import { CoreV1Api } from "@kubernetes/client-node";

export class Expirer {
  constructor(kubeConfig, now) {
    this.core = kubeConfig.makeApiClient(CoreV1Api);
    this.now = now;
  }

  /** Reconciles every object. A failure is left to the next reconcile. */
  async reconcile() {
    const { items } = await this.core.listConfigMapForAllNamespaces({ labelSelector: "ttl" });
    for (const { metadata, data } of items) {
      const ends = metadata.creationTimestamp.getTime() + 1000 * Number(metadata.labels.ttl);
      const object = { name: metadata.name, namespace: metadata.namespace };
      if ((await this.now()).getTime() >= ends) await this.#delete(object);
      else await this.#copy(object, data ?? {});
    }
  }

  async #delete(object) {
    await unlessMissing(this.core.deleteNamespacedSecret(object));
    await unlessMissing(this.core.deleteNamespacedConfigMap(object));
  }

  async #copy({ name, namespace }, texts) {
    const encoded = Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString("base64")]);
    const data = Object.fromEntries(encoded);
    const found = await unlessMissing(this.core.readNamespacedSecret({ name, namespace }));
    if (!found) {
      await this.core.createNamespacedSecret({ namespace, body: { metadata: { name }, data } });
    } else if (JSON.stringify(found.data) !== JSON.stringify(data)) {
      await this.core.replaceNamespacedSecret({ name, namespace, body: { ...found, data } });
    }
  }
}

async function unlessMissing(asked) {
  try {
    return await asked;
  } catch (error) {
    if (error.code !== 404) throw error;
  }
}
