// In: a name. Out: what this browser keeps under it for the course, as JSON; null where it keeps nothing or
// may not. Nothing is kept but after a click of the reader's: each caller says which.

const PREFIX = "tilewise:";

export function recall(name) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name));
  } catch {
    return null;
  }
}

/** Keep a value; null or undefined forgets it. Returns whether the browser could. */
export function keep(name, value) {
  try {
    if (value === null || value === undefined) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}
