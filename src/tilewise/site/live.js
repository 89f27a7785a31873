// Runs only in pages of `mkdocs serve`. Asks the server for updates, replaces the changed parts of the page, and shows
// errors above the last good page. Reloads the page if scripts, styles or the site's configuration changed.
(() => {
  if (window.tilewiseLive) return;
  const settings = "LIVE_SETTINGS";
  window.tilewiseLive = settings;
  const ARTICLE = ".md-content__inner";
  const PARTS = [
    ".md-header__title",
    ".md-tabs",
    ".md-sidebar--primary .md-sidebar__inner",
    ".md-sidebar--secondary .md-sidebar__inner",
    ARTICLE,
    ".md-footer",
  ];
  const url = () => location.pathname + location.search;
  const frame = (page) =>
    [...page.querySelectorAll("head script, head link[rel=stylesheet], body > script, #__config")]
      .filter((each) => !each.textContent.includes("tilewiseLive"))
      .map((each) => each.src || each.href || each.textContent)
      .join("\n");

  // Of the page as the server sent it: what is in its frame, the parts around the article, and the article's
  // elements, which scripts may since have wrapped. This script runs before any that changes the page.
  let sent = null;
  const plain = (block) => block.outerHTML.replace(/ data-line="\d+"/g, "");
  const remember = (page) => {
    const blocks = [...(page.querySelector(ARTICLE)?.children ?? [])];
    const parts = new Map(PARTS.map((part) => [part, page.querySelector(part)]));
    sent = {
      at: url(),
      frame: frame(page),
      parts: new Map([...parts].map(([part, each]) => [part, part === ARTICLE ? "" : each?.outerHTML])),
      blocks,
      texts: blocks.map(plain),
    };
  };
  remember(document);

  /** What the reader has set: chosen tabs, open folds, ranges and other fields. */
  const choices = (parts) => ({
    checked: all(parts, "input:checked").map((each) => each.id).filter(Boolean),
    open: all(parts, "details").map((each) => [name(each), each.open]),
  });
  const all = (parts, selector) =>
    parts.flatMap((part) => [...(part.matches(selector) ? [part] : []), ...part.querySelectorAll(selector)]);
  const name = (details) => details.id || details.querySelector("summary")?.textContent.trim() || "";
  const restore = (parts, kept) => {
    const inputs = new Map(all(parts, "input[id]").map((each) => [each.id, each]));
    for (const id of kept.checked) if (inputs.has(id)) inputs.get(id).checked = true;
    const folds = new Map(kept.open);
    for (const each of all(parts, "details")) {
      if (folds.has(name(each))) each.open = folds.get(name(each));
    }
  };
  /** Figures whose data is the same are moved over as they are, with their state. */
  const moveFigures = (from, to) => {
    const drawn = new Map();
    for (const each of all(from, "[data-figure]")) {
      drawn.set(each.dataset.figure, [...(drawn.get(each.dataset.figure) ?? []), each]);
    }
    for (const each of all(to, "[data-figure]")) {
      const kept = drawn.get(each.dataset.figure)?.shift();
      if (!kept || !each.parentNode) continue;
      for (const part of ["figcaption", ".tw-figure-alt"]) {
        const [old, fresh] = [kept.querySelector(part), each.querySelector(part)];
        if (old && fresh && old.outerHTML !== fresh.outerHTML) old.replaceWith(fresh);
      }
      each.replaceWith(kept);
    }
  };
  /** The heading at the top of the window, so that what is read stays where it is. */
  const held = () => {
    const heads = [...document.querySelectorAll(`${ARTICLE} [id]:is(h1, h2, h3, h4)`)];
    const above = heads.filter((each) => each.getBoundingClientRect().top < 120).pop();
    const [top, id] = [scrollY, above?.id];
    const at = above?.getBoundingClientRect().top;
    return () => {
      const head = id && document.getElementById(id);
      const now = head ? scrollY + head.getBoundingClientRect().top - at : top;
      if (now !== scrollY) scrollTo({ top: now, behavior: "instant" });
    };
  };
  /** Let the page's scripts look at what is new, once it is on the screen. */
  const settle = () => requestAnimationFrame(() => setTimeout(() => window.document$?.next(document)));

  /** Replace those elements of the article that differ; false where the article is not as it was sent. */
  const patch = (known) => {
    const article = document.querySelector(ARTICLE);
    const [old, now] = [known.texts, sent.texts];
    const most = Math.min(old.length, now.length);
    let first = 0;
    while (first < most && old[first] === now[first]) first++;
    let behind = 0;
    while (behind < most - first && old.at(-1 - behind) === now.at(-1 - behind)) behind++;
    const outer = (block) => {
      let each = block;
      while (each && each.parentNode !== article) each = each.parentNode;
      return each;
    };
    const gone = known.blocks.slice(first, old.length - behind);
    const rest = known.blocks.slice(old.length - behind);
    if (!article || ![...gone, ...rest.slice(0, 1)].every(outer)) return false;
    const fresh = sent.blocks.slice(first, now.length - behind).map((each) => document.adoptNode(each));
    const holder = document.createElement("div");
    holder.append(...fresh);
    const kept = choices(gone);
    moveFigures(gone, [holder]);
    restore([holder], kept);
    const anchor = rest.length ? outer(rest[0]) : null;
    for (const each of gone) outer(each)?.remove();
    if (anchor) anchor.before(...holder.children);
    else article.append(...holder.children);
    sent.blocks = [...known.blocks.slice(0, first), ...fresh, ...rest];
    return true;
  };

  const swap = (html) => {
    const next = new DOMParser().parseFromString(html, "text/html");
    const known = sent?.at === url() ? sent : null;
    if (sent && sent.frame !== frame(next)) return location.reload();
    const keep = held();
    const before = known?.parts ?? new Map();
    remember(next);
    for (const part of PARTS) {
      const [old, fresh] = [document.querySelector(part), next.querySelector(part)];
      if (!old || !fresh) {
        if (old || fresh) return location.reload();
        continue;
      }
      if (part === ARTICLE ? known && patch(known) : before.get(part) === sent.parts.get(part)) continue;
      const kept = choices([old]);
      const live = document.adoptNode(fresh);
      moveFigures([old], [live]);
      restore([live], kept);
      old.replaceWith(live);
    }
    document.title = next.title;
    keep();
    settle();
  };

  const show = (problem) => {
    document.getElementById("tilewise-problem")?.remove();
    if (!problem) return;
    const box = document.createElement("div");
    box.id = "tilewise-problem";
    box.setAttribute("role", "alert");
    const head = document.createElement("strong");
    head.textContent = "There is a mistake; the page shows what can be shown.\n";
    const close = document.createElement("button");
    close.textContent = "×";
    close.setAttribute("aria-label", "Hide this message");
    close.onclick = () => box.remove();
    box.append(head, problem, close);
    document.body.append(box);
  };

  let seenAt = url();
  const wait = async () => {
    for (;;) {
      try {
        const here = url();
        const page = encodeURIComponent(decodeURI(location.pathname));
        const asked = `/livereload/tilewise?page=${page}&seen=${here === seenAt ? settings.seen : ""}`;
        const answer = await fetch(asked, { cache: "no-store" });
        const state = await answer.json();
        if (state.assets !== settings.assets) return location.reload();
        if (here !== url()) continue;
        if (state.seen === settings.seen && here === seenAt) continue;
        show(state.problem);
        if (state.html) swap(state.html);
        [settings.seen, seenAt] = [state.seen, here];
      } catch {
        await new Promise((done) => setTimeout(done, 1000));
      }
    }
  };
  addEventListener("load", () => {
    show(settings.problem);
    wait();
  });
})();
