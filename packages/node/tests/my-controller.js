// A controller for the test of the README, which `.ci/node` puts above it: it writes once.

class MyController {
  constructor(config, now) {
    this.core = config.makeApiClient(CoreV1Api);
    this.now = now;
  }

  async reconcile() {
    await this.now();
    const { items } = await this.core.listNamespacedConfigMap({ namespace: "default" });
    if (items.some((item) => item.metadata.name === "mine")) return;
    await this.core.createNamespacedConfigMap({ namespace: "default", body: { metadata: { name: "mine" } } });
  }
}
