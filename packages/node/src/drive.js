// Clock, faults and snapshots of a server.

import { span } from "./wire.js";

/** The server's clock. It runs normally until it is frozen, and can be advanced at any time. */
export class Clock {
  #wire;

  constructor(wire) {
    this.#wire = wire;
  }

  async now() {
    return new Date((await this.#wire.ask("GET", "clock")).now);
  }

  /** Moves it forward; timers on the way fire. */
  advance(by) {
    return this.#change({ advance: span(by) });
  }

  /** Stops it; only `advance` moves it. */
  freeze() {
    return this.#change({ frozen: true });
  }

  /** Lets it run again. */
  thaw() {
    return this.#change({ frozen: false });
  }

  async #change(change) {
    return new Date((await this.#wire.ask("POST", "clock", change)).now);
  }
}

/** Fault injection. */
export class Faults {
  #wire;

  constructor(wire) {
    this.#wire = wire;
  }

  /** Adds a fault. It affects the nth matching request and those after it, up to `times` in total. */
  async add(action, { nth = 1, times = 1, probability = 1, seed = 0, ...request } = {}) {
    const rule = { request, nth, times, probability, seed, action };
    const { id } = await this.#wire.ask("POST", "faults", rule);
    return { id, remove: async () => void (await this.#wire.ask("DELETE", `faults/${id}`)) };
  }

  /** Answers requests with an error instead of handling them: `fail(409, { reason: "Conflict", verb: "update" })`. */
  fail(code, { reason = "", message = "on purpose", ...rule } = {}) {
    const status = { kind: "Status", apiVersion: "v1", status: "Failure", code, reason, message };
    return this.add({ fail: status }, rule);
  }

  /** Handles and stores requests, and breaks the connection before the answer. */
  loseAnswer(rule) {
    return this.add({ cut: "beforeAnswer" }, rule);
  }

  /** The faults that have fired, in order. */
  fired() {
    return this.#wire.ask("GET", "fired");
  }

  /** Removes all faults. */
  async clear() {
    await this.#wire.ask("DELETE", "faults");
  }
}

/** A saved state of all objects. */
export class Snapshot {
  #wire;

  constructor(wire, id) {
    this.#wire = wire;
    this.id = id;
  }

  /** Restores the saved state; watches see the difference. */
  async restore() {
    await this.#wire.ask("POST", `snapshots/${this.id}`);
  }

  /** Deletes the snapshot. */
  async forget() {
    await this.#wire.ask("DELETE", `snapshots/${this.id}`);
  }
}
