// Links to a moment of a figure: `?figure-2=step12-thread40-3d`.
// In: a figure's id and state. Out: a link, and the state in the page's URL.

/** Whether the page can be linked to: a frame in a notebook has no address of its own. */
export const hasAddress = location.protocol !== "about:";

/** @typedef {{step?: number, selected?: number, view?: string}} Place */

/** What the page's address asks of a figure; nothing where it does not mention it. @param {string} id @returns {Place} */
export function asked(id) {
  const found = /^step(\d{1,6})(?:-thread(\d{1,7}))?(?:-([23]d))?$/.exec(new URLSearchParams(location.search).get(id) || "");
  if (!found || !id) return {};
  const place = { step: Number(found[1]) - 1 };
  if (found[2]) place.selected = Number(found[2]);
  if (found[3]) place.view = found[3];
  return place;
}

/**
 * The address of one figure at one moment; of a reader's own run, with the run's sizes.
 * @param {string} id @param {Place} place
 */
export function linkTo(id, place) {
  const own = id.endsWith("-steps") ? id.slice(0, -"-steps".length) : "";
  const sizes = own && new URLSearchParams(location.search).get(own);
  return `${location.href.split(/[?#]/)[0]}?${sizes ? `${own}=${sizes}&` : ""}${id}=${written(place)}#${id}`;
}

/** @param {string} text @returns {Promise<boolean>} whether the clipboard has it */
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

function written({ step = 0, selected, view }) {
  return `step${step + 1}${selected === undefined ? "" : `-thread${selected}`}${view ? `-${view}` : ""}`;
}
