// A Kubernetes API server for tests, with a controllable clock and fault injection.
//
// The server is a separate process and stops with this one, even if that is killed. Clients need only its kubeconfig; this
// package controls it.

export { Refused } from "./wire.js";
export { Watchkeeper } from "./watchkeeper.js";
export { useWatchkeeper } from "./hooks.js";
