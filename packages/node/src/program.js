// Where the program is.

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const NAME = process.platform === "win32" ? "watchkeeper.exe" : "watchkeeper";

/** The program that $WATCHKEEPER_PROGRAM names, that came with this package, or that is on the PATH, in this order. */
export function findProgram() {
  if (process.env.WATCHKEEPER_PROGRAM) return process.env.WATCHKEEPER_PROGRAM;
  const carried = fileURLToPath(new URL(`../bin/${NAME}`, import.meta.url));
  return existsSync(carried) ? carried : NAME;
}
