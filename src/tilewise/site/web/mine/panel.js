// The panel for the reader's own files: a place to drop them, what was loaded, what was refused and why.
// In: what to do with files. Out: a modal dialog; how records are read and kept is left to main.js.

import { element } from "../site/dom.js";
import { lessonOf } from "../site/progress.js";

/** @param {{take: (files: any[]) => Promise<any>, forget: () => void, back: () => void}} given */
export function dialog({ take, forget, back }) {
  const input = element("input", { type: "file", multiple: true, accept: ".json", hidden: true, tabindex: -1 });
  const pick = element("button", { type: "button", class: "tw-act tw-act-main" }, "Choose files…");
  const status = element("p", { class: "tw-feedback-note", role: "status" });
  const refused = element("ul", { class: "tw-mine-refused" });
  const heading = element("p", { class: "tw-dialog-label", id: "tw-mine-loaded" });
  const loaded = element("ul", { class: "tw-mine-loaded", tabindex: 0, "aria-labelledby": "tw-mine-loaded" });
  const clear = element("button", { type: "button", class: "tw-quiet" }, "Forget my files");
  const close = element("button", { type: "button", class: "tw-dialog-close", "aria-label": "Close" }, "×");
  const command = element("code", {}, `tilewise record ${lessonOf(location.href) || "LESSON"}`);
  const folder = element("code", {}, "lessons/measurements/YOUR-GPU");
  const made = element(
    "dialog",
    { class: "tw-dialog tw-mine md-typeset", "aria-labelledby": "tw-mine-title" },
    element("h2", { id: "tw-mine-title" }, "Numbers of your own GPU"),
    close,
    element("p", {}, "Run ", command, " on your GPU, then drop the files of ", folder, " here."),
    element("div", { class: "tw-mine-drop" }, element("p", {}, "Drop files anywhere on the page, or"), pick, input),
    element("p", { class: "tw-feedback-note" }, "This browser reads and keeps them. They are not sent anywhere."),
    status,
    element("div", { role: "alert" }, refused),
    heading,
    loaded,
    clear,
  );

  const panel = {
    async take(files) {
      status.textContent = "Reading…";
      refused.replaceChildren();
      const { records, refused: faults, texts, held } = await take(files);
      status.textContent = summary(records.length, texts, held);
      refused.append(...faults.map((fault) => element("li", {}, fault)));
    },
    list(records) {
      const all = [...records.values()].sort((a, b) => (a.experiment < b.experiment ? -1 : 1));
      heading.textContent = `${counted(all.length, "experiment")} loaded`;
      loaded.replaceChildren(
        ...all.map(({ experiment, provenance: { device, date } }) =>
          element("li", {}, element("code", {}, experiment), ` ${device}, ${date}`),
        ),
      );
      for (const part of [heading, loaded, clear]) part.hidden = !all.length;
    },
  };
  pick.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    panel.take([...input.files]);
    input.value = "";
  });
  clear.addEventListener("click", () => {
    forget();
    status.textContent = "Forgotten.";
    pick.focus();
  });
  close.addEventListener("click", () => made.close());
  made.addEventListener("click", (event) => event.target === made && made.close());
  made.addEventListener("close", () => {
    made.remove();
    back();
  });
  // Material's shortcuts (/, n, p and others) listen to the whole window.
  made.addEventListener("keydown", (event) => event.key !== "Escape" && event.stopPropagation());
  document.body.append(made);
  made.showModal();
  return panel;
}

function summary(records, texts, held) {
  const said = [records ? `Read ${counted(records, "experiment")}.` : "No experiment was read."];
  if (texts) said.push(`${counted(texts, "file")} of printed text: pages cannot show those from files.`);
  if (!held) said.push("This browser has no room to keep them, so they last until you leave the page.");
  return said.join(" ");
}

function counted(count, what) {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}
