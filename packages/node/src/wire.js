// An administrator's connection to the testing API, `/testing/v1/`.

import { request } from "node:https";

/** An error answer of the server. */
export class Refused extends Error {
  constructor(code, message) {
    super(`${code}: ${message}`);
    this.name = "Refused";
    this.code = code;
  }
}

export class Wire {
  constructor({ url, token, ca }) {
    Object.assign(this, { url, token, ca });
  }

  /** Sends a request below `/testing/v1/`; resolves to the decoded answer. */
  ask(method, path, body) {
    const text = body === undefined ? "" : JSON.stringify(body);
    const headers = { authorization: `Bearer ${this.token}`, "content-length": Buffer.byteLength(text) };
    const options = { method, headers, ca: this.ca, agent: false };
    return new Promise((resolve, reject) => {
      const sent = request(`${this.url}/testing/v1/${path}`, options, (answer) => {
        const chunks = [];
        answer.on("data", (chunk) => chunks.push(chunk));
        answer.on("error", reject);
        answer.on("end", () => {
          const read = Buffer.concat(chunks).toString();
          if (answer.statusCode === 200) resolve(JSON.parse(read));
          else reject(new Refused(answer.statusCode, message(read)));
        });
      });
      sent.on("error", reject);
      sent.end(text);
    });
  }
}

function message(body) {
  try {
    return JSON.parse(body).message ?? body;
  } catch {
    return body.trim();
  }
}

/** A span in the server's format: from milliseconds, or Go's "1m30s". */
export function span(value) {
  return typeof value === "number" ? `${value}ms` : value;
}
