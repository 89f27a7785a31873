// In: a name. Out: the course's value of that name in this browser, as JSON; null if there is none or storage is
// denied. Values are stored only after a click of the reader's; each caller says which.

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
