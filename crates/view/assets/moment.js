// The moment of a recording that is shown, and the controls that go to another one.

import { $, present, clock } from "./dom.js";

// Hidden for a live cluster. For a recording it also sets the page's current time.
export class MomentBar {
  // `send` posts; `moved` is called when the server is at another moment.
  constructor(send, moved) {
    [this.send, this.moved] = [send, moved];
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

  // Shows the moment that the server reports; null for a live cluster. A report from before the last move is late.
  show(span) {
    if (!span || span.moves < this.span?.moves) return;
    this.span = span;
    present.now = () => this.span.at;
    $("moment").hidden = false;
    document.body.classList.add("recorded");
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
      this.moved();
      $("moment-error").textContent = "";
    } catch (error) {
      $("moment-error").textContent = error.message;
    } finally {
      this.going = false;
    }
  }
}
