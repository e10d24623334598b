// A cluster for the tests of a file, with the hooks of vitest, jest or node:test.

import { Watchkeeper } from "./watchkeeper.js";

/**
 * Starts a server before the tests of a file, resets it after each test, and stops it after the last. Returns a function
 * that returns the server.
 */
export function useWatchkeeper(hooks, options) {
  const first = hooks.beforeAll ?? hooks.before;
  const last = hooks.afterAll ?? hooks.after;
  let server;
  first(async () => {
    server = await Watchkeeper.start(options);
  });
  hooks.afterEach(async () => {
    await server.clock.thaw();
    await server.reset();
  });
  last(async () => {
    await server?.stop();
  });
  return () => server;
}
