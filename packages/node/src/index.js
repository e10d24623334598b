// A Kubernetes API server for tests, with a clock that can be moved and faults on demand.
//
// The server is a process of its own and ends with this one, however that ends. Nothing here is needed to talk to it but
// a kubeconfig; what is here drives it.

export { Refused } from "./wire.js";
export { Watchkeeper } from "./watchkeeper.js";
export { useWatchkeeper } from "./hooks.js";
