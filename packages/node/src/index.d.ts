/** A span of time: milliseconds, or Go's "1m30s". */
export type Span = number | string;

export interface StartOptions {
  /** Adds simulated nodes and controllers, so that pods run. Without them there is only the API server, as in envtest. */
  simulator?: boolean;
  /** Further arguments of `watchkeeper up`. */
  args?: string[];
  /** The path of the program; by default $WATCHKEEPER_PROGRAM, the one in this package, or the one on the PATH. */
  program?: string;
}

export type Verb = "create" | "delete" | "deletecollection" | "get" | "list" | "patch" | "update" | "watch";

/** Selects the affected requests. Omitted fields match everything. */
export interface Rule {
  user?: string;
  userAgent?: string;
  verb?: Verb;
  group?: string;
  resource?: string;
  subresource?: string;
  namespace?: string;
  name?: string;
  /** The first matching request that is affected; 1 by default. */
  nth?: number;
  /** The number of affected requests; 1 by default, unlimited if null. */
  times?: number | null;
  probability?: number;
  seed?: number;
}

export type Cut = "beforeHandling" | "beforeAnswer" | "withinAnswer" | "afterAnswer";
export type Flow = "running" | "stalled" | "ended" | "cut" | { slow: string };
export type Action =
  | "forbid"
  | "compact"
  | "webhooksDown"
  | "readOnly"
  | "withholdBookmark"
  | { fail: object }
  | { delay: string }
  | { cut: Cut }
  | { stale: { at: number } | { behind: number } }
  | { flow: Flow }
  | { delayEvent: string };

export interface Fired {
  at: string;
  rule: number | null;
  action: Action;
  user: string;
  userAgent: string;
  verb: string;
  path: string;
  object: string;
}

export interface FieldChange {
  path: string;
  before: unknown;
  after: unknown;
}

export interface Write {
  at: string;
  user: string;
  userAgent: string;
  verb: string;
  kind: string;
  subresource: string;
  namespace: string;
  name: string;
  previous: number | null;
  revision: number | null;
  outcome: "unchanged" | { created: object } | { deleted: object } | { changed: FieldChange[] };
}

export interface Clock {
  now(): Promise<Date>;
  advance(by: Span): Promise<Date>;
  freeze(): Promise<Date>;
  thaw(): Promise<Date>;
}

export interface Fault {
  id: number;
  remove(): Promise<void>;
}

export interface Faults {
  add(action: Action, rule?: Rule): Promise<Fault>;
  fail(code: number, rule?: Rule & { reason?: string; message?: string }): Promise<Fault>;
  loseAnswer(rule?: Rule): Promise<Fault>;
  fired(): Promise<Fired[]>;
  clear(): Promise<void>;
}

export interface Snapshot {
  id: number;
  restore(): Promise<void>;
  forget(): Promise<void>;
}

/** An error answer of the server. */
export class Refused extends Error {
  code: number;
}

/** A server for tests. */
export class Watchkeeper {
  private constructor();
  static start(options?: StartOptions): Promise<Watchkeeper>;
  stop(): Promise<void>;
  readonly url: string;
  readonly token: string;
  readonly ca: string;
  readonly kubeconfig: string;
  readonly clock: Clock;
  readonly faults: Faults;
  writes(where?: Partial<Write>): Promise<Write[]>;
  clearWrites(): Promise<void>;
  waitIdle(options?: { quiet?: Span; timeout?: Span }): Promise<void>;
  snapshot(): Promise<Snapshot>;
  reset(): Promise<void>;
  compact(): Promise<void>;
}

type Hook = (run: () => Promise<void>) => void;

/** Hooks of vitest and jest (`beforeAll`, `afterAll`) or of node:test (`before`, `after`). */
export type Hooks = { afterEach: Hook } & ({ beforeAll: Hook; afterAll: Hook } | { before: Hook; after: Hook });

/** A server for the tests of a file, reset after each of them. */
export function useWatchkeeper(hooks: Hooks, options?: StartOptions): () => Watchkeeper;
