// In: sets of content tabs, which Material switches and links. Out: each block gets its tab's name, so that print can
// show them all below each other, and each set gets a name for screen readers.

export function labelTabsForPrint(article) {
  for (const set of article.querySelectorAll(".tabbed-set")) {
    const labels = set.querySelectorAll(":scope > .tabbed-labels > label");
    const blocks = set.querySelectorAll(":scope > .tabbed-content > .tabbed-block");
    blocks.forEach((block, at) => {
      if (labels[at]) block.dataset.tab = labels[at].textContent.trim();
    });
  }
}

/** Show the tab that holds `element`, if one does and another is shown; sets inside sets included. */
export function showTabOf(element) {
  const around = (node) => node.closest(".tabbed-block");
  for (let block = around(element); block; block = around(block.parentElement)) {
    const set = block.closest(".tabbed-set");
    const at = [...block.parentElement.children].indexOf(block);
    const input = set.querySelectorAll(":scope > input")[at];
    if (input && !input.checked) input.click();
  }
}
