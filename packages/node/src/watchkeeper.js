// The server process: start, connect, stop.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, open, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { Clock, Faults, Snapshot } from "./drive.js";
import { findProgram } from "./program.js";
import { Wire, span } from "./wire.js";

/** The time a server has to stop before it is killed, in milliseconds. */
const PATIENCE = 15_000;

export class Watchkeeper {
  #process;
  #directory;
  #wire;

  constructor({ process, directory, wire }) {
    this.#process = process;
    this.#directory = directory;
    this.#wire = wire;
    /** The URL of the server. */
    this.url = wire.url;
    /** The administrator's bearer token. */
    this.token = wire.token;
    /** The server's CA certificate, PEM. */
    this.ca = wire.ca;
    /** The path of the administrator's kubeconfig. */
    this.kubeconfig = join(directory, "kubeconfig");
    /** The server's clock. */
    this.clock = new Clock(wire);
    /** Fault injection. */
    this.faults = new Faults(wire);
  }

  /** Starts a server; it is ready when this resolves. */
  static async start({ simulator = false, args = [], program = findProgram() } = {}) {
    const directory = await mkdtemp(join(tmpdir(), "watchkeeper-"));
    try {
      const process = await launch(program, directory, simulator ? args : ["--no-simulator", ...args]);
      const wire = await reach(join(directory, "kubeconfig"));
      return new Watchkeeper({ process, directory, wire });
    } catch (error) {
      await rm(directory, { recursive: true, force: true });
      throw error;
    }
  }

  /** Stops the server and deletes its files. */
  async stop() {
    const process = this.#process;
    if (process.exitCode === null && process.signalCode === null) {
      const killer = setTimeout(() => process.kill("SIGKILL"), PATIENCE);
      const ended = once(process, "exit");
      process.stdin.end();
      await ended;
      clearTimeout(killer);
    }
    await rm(this.#directory, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose ?? Symbol.for("nodejs.asyncDispose")]() {
    await this.stop();
  }

  /** The log of writes, optionally filtered: `writes({ kind: "Pod" })`. */
  async writes(where = {}) {
    const writes = await this.#wire.ask("GET", "writes");
    return writes.filter((write) => Object.entries(where).every(([name, value]) => write[name] === value));
  }

  /** Clears the log of writes. */
  async clearWrites() {
    await this.#wire.ask("DELETE", "writes");
  }

  /** Waits until there is no open request and no activity for a while, in real time. Open watches do not count. */
  async waitIdle({ quiet = 50, timeout = 30_000 } = {}) {
    await this.#wire.ask("POST", "idle", { quiet: span(quiet), timeout: span(timeout) });
  }

  /** Saves the current state of all objects. */
  async snapshot() {
    const { id } = await this.#wire.ask("POST", "snapshots");
    return new Snapshot(this.#wire, id);
  }

  /** Restores the initial objects, removes all faults, and clears the records of faults and writes. The clock stays. */
  async reset() {
    await this.#wire.ask("POST", "reset");
  }

  /** Drops all history: a watch from an older version gets 410 Gone. */
  async compact() {
    await this.#wire.ask("POST", "compact");
  }
}

/** Starts the program and waits for the line that says it is ready. */
async function launch(program, directory, args) {
  const log = join(directory, "log");
  const errors = await open(log, "w");
  const words = ["up", "--testing", "--end-with-stdin", "--listen", "127.0.0.1:0"];
  // The server stops when its standard input ends, at the latest with this process.
  const child = spawn(program, [...words, "--kubeconfig", join(directory, "kubeconfig"), ...args], {
    stdio: ["pipe", "pipe", errors.fd],
  });
  const failed = once(child, "error").then(([error]) => Promise.reject(error));
  const lines = createInterface({ input: child.stdout });
  const ready = Promise.race([once(lines, "line"), once(child, "exit").then(() => null)]);
  try {
    if ((await Promise.race([ready, failed])) === null) {
      throw new Error(`the server did not start: ${(await readFile(log, "utf8")).trim()}`);
    }
  } finally {
    failed.catch(() => {});
    await errors.close();
  }
  return child;
}

async function reach(kubeconfig) {
  const text = await readFile(kubeconfig, "utf8");
  const field = (name) => {
    const found = text.match(new RegExp(`^\\s*${name}: (\\S+)$`, "m"));
    if (!found) throw new Error(`the kubeconfig has no ${name}`);
    return found[1];
  };
  const ca = Buffer.from(field("certificate-authority-data"), "base64").toString();
  return new Wire({ url: field("server"), token: field("token"), ca });
}
