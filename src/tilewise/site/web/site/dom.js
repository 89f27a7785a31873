// In: a tag, attributes and children. Out: an element. Text always becomes a text node, never markup.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** A sentence whose parts between back ticks are code. @param {string} text */
export const coded = (text) => text.split("`").map((part, at) => (at % 2 ? element("code", {}, part) : part));
