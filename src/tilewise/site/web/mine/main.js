// Records of the reader's own, made by `tilewise record`. In: files that were dropped or chosen. Out: their numbers
// in the page's tables and sentences. They are checked and kept in this browser; nothing leaves it. A module,
// fetched by site/machines.js when it is first wanted.

import { keep, recall } from "../site/stored.js";
import { formatted } from "./format.js";
import { dialog } from "./panel.js";
import { read } from "./record.js";
import { showRecords } from "./show.js";
import { valueAt, valuesOf } from "./values.js";

export { formatted, read, valueAt, valuesOf };

const KEPT = "mine";
/** What is kept is of this form; what an earlier version of the site kept is left out. */
const FORM = 1;
/** @type {Map<string, any>|null} */
let records = null;
let panel = null;

/** The records by experiment. */
function loaded() {
  const kept = records ? null : recall(KEPT);
  records ??= new Map((kept?.form === FORM ? kept.records : []).map((record) => [record.experiment, record]));
  return records;
}

/** Another page of this browser has changed what is kept. */
export function reload() {
  records = null;
  panel?.list(loaded());
}

/** Put the records' numbers into an article; see site/machines.js for what is given. */
export function show(given) {
  showRecords(loaded(), given);
}

/** Open the panel, or return the one that is open. */
export function openPanel({ change, back }) {
  panel ??= dialog({
    take: async (files) => {
      const found = await read(files);
      for (const record of found.records) loaded().set(record.experiment, record);
      const held = found.records.length ? store() : true;
      panel?.list(loaded());
      if (found.records.length) change(true);
      return { ...found, held };
    },
    forget: () => {
      loaded().clear();
      store();
      panel.list(loaded());
      change(false);
    },
    back: () => {
      panel = null;
      back();
    },
  });
  panel.list(loaded());
  if (loaded().size) change(true);
  return panel;
}

/** Keep the records for the next visit; whether this browser could. */
function store() {
  return keep(KEPT, records.size ? { form: FORM, records: [...records.values()] } : null);
}
