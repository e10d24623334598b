// Finds the program.

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const NAME = process.platform === "win32" ? "watchkeeper.exe" : "watchkeeper";

/** The program: $WATCHKEEPER_PROGRAM, the one in this package, or the one on the PATH, in this order. */
export function findProgram() {
  if (process.env.WATCHKEEPER_PROGRAM) return process.env.WATCHKEEPER_PROGRAM;
  const carried = fileURLToPath(new URL(`../bin/${NAME}`, import.meta.url));
  return existsSync(carried) ? carried : NAME;
}
