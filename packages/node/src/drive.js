// Clock, faults and snapshots of a server.

import { span } from "./wire.js";

/** The time of a server: it runs as everyone's until it is frozen, and can be moved forward at any time. */
export class Clock {
  #wire;

  constructor(wire) {
    this.#wire = wire;
  }

  async now() {
    return new Date((await this.#wire.ask("GET", "clock")).now);
  }

  /** Moves it forward: what is due meanwhile happens. */
  advance(by) {
    return this.#change({ advance: span(by) });
  }

  /** Stops it: from now on it moves by `advance` alone. */
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

/** What goes wrong on purpose. */
export class Faults {
  #wire;

  constructor(wire) {
    this.#wire = wire;
  }

  /** Plans a fault: it happens to the nth request that matches and to those that follow, so many times. */
  async add(action, { nth = 1, times = 1, probability = 1, seed = 0, ...request } = {}) {
    const rule = { request, nth, times, probability, seed, action };
    const { id } = await this.#wire.ask("POST", "faults", rule);
    return { id, remove: async () => void (await this.#wire.ask("DELETE", `faults/${id}`)) };
  }

  /** Requests are answered with an error instead of being handled: `fail(409, { reason: "Conflict", verb: "update" })`. */
  fail(code, { reason = "", message = "on purpose", ...rule } = {}) {
    const status = { kind: "Status", apiVersion: "v1", status: "Failure", code, reason, message };
    return this.add({ fail: status }, rule);
  }

  /** Requests are handled, writes are stored, and the connection breaks before the answer. */
  loseAnswer(rule) {
    return this.add({ cut: "beforeAnswer" }, rule);
  }

  /** The faults that have happened, in order. */
  fired() {
    return this.#wire.ask("GET", "fired");
  }

  /** Takes all faults back. */
  async clear() {
    await this.#wire.ask("DELETE", "faults");
  }
}

/** All objects as they were. */
export class Snapshot {
  #wire;

  constructor(wire, id) {
    this.#wire = wire;
    this.id = id;
  }

  /** Puts them back; watches see the difference. */
  async restore() {
    await this.#wire.ask("POST", `snapshots/${this.id}`);
  }

  /** Forgets them. */
  async forget() {
    await this.#wire.ask("DELETE", `snapshots/${this.id}`);
  }
}
