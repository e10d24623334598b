// Deleting, scaling and editing the open object, if the page was started with --allow-writes.

import { $ } from "./dom.js";

export const isAllowed = document.body.dataset.writes === "true";

export class Writes {
  // `target` returns the open object, `send` posts, `done` is called after a write.
  constructor(target, send, done) {
    [this.target, this.send, this.done] = [target, send, done];
    this.editing = null;
    if (!isAllowed) return;
    $("edit").onclick = () => this.edit();
    $("edit-cancel").onclick = () => this.leave();
    $("edit-save").onclick = () => this.write({ action: "edit", old: this.editing, new: $("editor").value }, () => this.leave());
    $("scale").onclick = () => this.ask("scale");
    $("delete").onclick = () => this.ask("delete");
    $("confirm").addEventListener("close", () => this.answered());
  }

  // Shows the controls that the object supports.
  show(found) {
    if (!isAllowed) return;
    this.found = found;
    const exists = found?.yaml !== null && found?.yaml !== undefined;
    $("writes").hidden = !exists || this.editing !== null;
    $("scale").hidden = !Number.isInteger(found?.replicas);
  }

  get isEditing() {
    return this.editing !== null;
  }

  edit() {
    this.editing = this.found.yaml;
    $("editor").value = this.editing;
    this.toggle(true);
    $("editor").setSelectionRange(0, 0);
    $("editor").focus();
    $("editor").scrollTop = 0;
  }

  leave() {
    this.editing = null;
    this.toggle(false);
    this.show(this.found);
    $("edit").focus();
  }

  toggle(isEditing) {
    $("editing").hidden = !isEditing;
    $("yaml").hidden = isEditing;
    $("history").hidden = true;
    $("writes").hidden = isEditing;
    $("write-note").textContent = "";
  }

  ask(what) {
    const { kind, namespace, name } = this.target();
    this.asked = what;
    const full = namespace ? `${namespace}/${name}` : name;
    $("confirm-title").textContent = what === "delete" ? `Delete ${kind} ${full}?` : `Scale ${kind} ${full}`;
    $("confirm-replicas").hidden = what !== "scale";
    $("replicas").value = this.found.replicas ?? 0;
    $("confirm-do").textContent = what === "delete" ? "Delete" : "Scale";
    $("confirm-do").classList.toggle("danger", what === "delete");
    $("confirm").returnValue = "";
    $("confirm").showModal();
  }

  answered() {
    if ($("confirm").returnValue !== "do") return;
    if (this.asked === "delete") this.write({ action: "delete", uid: this.found.uid });
    else this.write({ action: "scale", replicas: Number($("replicas").value) });
  }

  async write(change, then) {
    const note = $("write-note");
    note.textContent = "sending…";
    try {
      await this.send("/api/write", { ...this.target(), ...change });
      then?.();
      note.textContent = "done";
      this.done();
    } catch (error) {
      note.textContent = error.message;
    }
  }
}
