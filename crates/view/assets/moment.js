// The moment of a recording that is shown, and the way to another one.

import { $, present, clock } from "./dom.js";

// Where the page is in time. The present is the machine's, unless a recording is shown.
export class MomentBar {
  constructor(send) {
    this.send = send;
    this.span = null;
    this.going = false;
    $("moment-slider").oninput = (event) => this.label(Number(event.target.value));
    $("moment-slider").onchange = (event) => this.go({ at: Number(event.target.value) });
    $("moment-back").onclick = () => this.go({ step: -1 });
    $("moment-on").onclick = () => this.go({ step: 1 });
    $("moment-time").onchange = (event) => {
      const at = new Date(event.target.value).getTime();
      if (!Number.isNaN(at)) this.go({ at });
    };
  }

  get isShown() {
    return this.span !== null;
  }

  // Takes in what the server says; null for a live cluster.
  show(span) {
    if (!span) return;
    this.span = span;
    present.now = () => this.span.at;
    $("moment").hidden = false;
    const slider = $("moment-slider");
    [slider.min, slider.max] = [span.from, span.to];
    if (document.activeElement !== slider || !this.going) slider.value = span.at;
    $("moment-back").disabled = span.at <= span.from;
    $("moment-on").disabled = span.at >= span.to;
    this.label(span.at);
  }

  label(at) {
    const text = `${new Date(at).toLocaleDateString()} ${clock(at)}`;
    $("moment-label").textContent = text;
    $("moment-slider").setAttribute("aria-valuetext", text);
    $("moment-count").textContent = `${this.span.changes} of ${this.span.all} changes`;
  }

  async go(where) {
    this.going = true;
    try {
      this.show(await this.send("/api/go", where));
      $("moment-error").textContent = "";
    } catch (error) {
      $("moment-error").textContent = error.message;
    } finally {
      this.going = false;
    }
  }
}
