// In: the footnotes at the end of a page and their marks. Out: on a wide screen each note is in the margin next to its
// mark, below the previous note; otherwise the list stays at the end. The notes never leave the list, so the links
// between mark and note, the reading order and a page without JavaScript don't change.

const wide = window.matchMedia("(min-width: 76.25em)");
const GAP_PX = 14;

export function placeNotes(article, signal) {
  const list = article.querySelector(":scope > .footnote");
  if (!list) return;
  const references = [...article.querySelectorAll("a.footnote-ref")];
  const pairs = [...list.querySelectorAll(":scope > ol > li[id]")].map((note, at) => {
    const first = note.querySelector("p") ?? note;
    first.dataset.number = at + 1;
    const marks = references.filter((mark) => mark.hash === `#${note.id}`);
    return { note, marks };
  });

  const place = () => {
    list.classList.toggle("tw-in-margin", wide.matches);
    if (!wide.matches) return;
    const box = article.getBoundingClientRect();
    article.style.setProperty("--tw-notes-left", `${box.right + window.scrollX}px`);
    let free = box.top + window.scrollY;
    // Code beside code reaches into the margin; a note there goes above or below it.
    const walls = [...article.querySelectorAll(".tw-two-up")].map((wall) => wall.getBoundingClientRect());
    for (const { note, marks } of pairs) {
      const mark = marks.find((each) => each.offsetParent !== null);
      note.hidden = !mark;
      if (!mark) continue;
      let at = Math.max(mark.getBoundingClientRect().top + window.scrollY - 2, free);
      for (const wall of walls) {
        const [top, bottom] = [wall.top, wall.bottom].map((each) => each + window.scrollY);
        const meets = wall.right > box.right - note.offsetWidth && at + note.offsetHeight > top && at < bottom;
        const above = top - note.offsetHeight - GAP_PX;
        if (meets) at = above >= free ? above : bottom + GAP_PX;
      }
      note.style.setProperty("--tw-note-top", `${at}px`);
      free = at + note.offsetHeight + GAP_PX;
    }
    article.style.setProperty("--tw-notes-height", `${free - box.top - window.scrollY}px`);
  };

  let asked = 0;
  const soon = () => {
    cancelAnimationFrame(asked);
    asked = requestAnimationFrame(place);
  };
  const sizes = new ResizeObserver(soon);
  sizes.observe(article);
  signal.addEventListener("abort", () => {
    sizes.disconnect();
    cancelAnimationFrame(asked);
  });
  wide.addEventListener("change", soon, { signal });
  article.addEventListener("toggle", soon, { signal, capture: true });
  article.addEventListener("change", soon, { signal });
  for (const { note, marks } of pairs) {
    for (const mark of marks) {
      const light = (on) => () => note.classList.toggle("tw-note-lit", on);
      mark.addEventListener("pointerenter", light(true), { signal });
      mark.addEventListener("pointerleave", light(false), { signal });
      mark.addEventListener("focus", light(true), { signal });
      mark.addEventListener("blur", light(false), { signal });
    }
  }
  place();
  // Instant navigation scrolls before it announces a page, when the notes are still at its end.
  const named = pairs.find(({ note }) => location.hash === `#${note.id}`);
  if (named && list.classList.contains("tw-in-margin")) named.note.scrollIntoView();
}
