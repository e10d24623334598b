// A cluster for the tests of a file, with the hooks of vitest, jest or node:test.

import { Watchkeeper } from "./watchkeeper.js";

/**
 * Starts a server before the tests of a file, puts it back after each, and ends it after the last. Returns a function
 * that gives the server to a test.
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
