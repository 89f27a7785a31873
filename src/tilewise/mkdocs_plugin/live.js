// Runs in pages of `mkdocs serve` only. Asks the server what is new, puts the changed parts of the page in place,
// and shows what went wrong above the last good page. Loads the page anew where scripts, styles or the site's
// configuration changed.
(() => {
  if (window.tilewiseLive) return;
  const settings = "LIVE_SETTINGS";
  window.tilewiseLive = settings;
  const PARTS = [
    ".md-header__title",
    ".md-tabs",
    ".md-sidebar--primary .md-sidebar__inner",
    ".md-sidebar--secondary .md-sidebar__inner",
    ".md-content__inner",
    ".md-footer",
  ];
  const url = () => location.pathname + location.search;
  const parse = (text) => new DOMParser().parseFromString(text, "text/html");
  const load = async () => {
    const answer = await fetch(url(), { cache: "no-store" });
    return answer.ok ? parse(await answer.text()) : null;
  };
  const frame = (page) =>
    [...page.querySelectorAll("head script, head link[rel=stylesheet], body > script, #__config")]
      .filter((each) => !each.textContent.includes("tilewiseLive"))
      .map((each) => each.src || each.href || each.textContent)
      .join("\n");

  // The page as the server sent it, before scripts changed it; found once for each address.
  const sent = new Map();
  const remember = async () => {
    const here = url();
    if (!sent.has(here)) sent.set(here, await load());
  };

  /** What the reader has set on the page: chosen tabs, open folds, ranges and other fields. */
  const choices = (article) => ({
    checked: [...article.querySelectorAll("input:checked")].map((each) => each.id).filter(Boolean),
    open: [...article.querySelectorAll("details")].map((each) => [name(each), each.open]),
  });
  const name = (details) => details.id || details.querySelector("summary")?.textContent.trim() || "";
  const restore = (article, kept) => {
    const inputs = new Map([...article.querySelectorAll("input[id]")].map((each) => [each.id, each]));
    for (const id of kept.checked) if (inputs.has(id)) inputs.get(id).checked = true;
    const folds = new Map(kept.open);
    for (const each of article.querySelectorAll("details")) {
      if (folds.has(name(each))) each.open = folds.get(name(each));
    }
  };
  /** Figures whose data is the same are moved over as they are, with their state. */
  const moveFigures = (from, to) => {
    const drawn = new Map();
    for (const each of from.querySelectorAll("[data-figure]")) {
      drawn.set(each.dataset.figure, [...(drawn.get(each.dataset.figure) ?? []), each]);
    }
    for (const each of to.querySelectorAll("[data-figure]")) {
      const kept = drawn.get(each.dataset.figure)?.shift();
      if (!kept) continue;
      for (const part of ["figcaption", ".tw-figure-alt"]) {
        const [old, fresh] = [kept.querySelector(part), each.querySelector(part)];
        if (old && fresh && old.outerHTML !== fresh.outerHTML) old.replaceWith(fresh);
      }
      each.replaceWith(kept);
    }
  };
  /** The heading at the top of the window, so that what is read stays where it is. */
  const held = () => {
    const heads = [...document.querySelectorAll(".md-content__inner [id]:is(h1, h2, h3, h4)")];
    const above = heads.filter((each) => each.getBoundingClientRect().top < 120).pop();
    return above ? { id: above.id, top: above.getBoundingClientRect().top } : null;
  };

  const swap = async (here, html) => {
    if (here !== url()) [here, html] = [url(), null];
    const next = html ? parse(html) : await load();
    if (!next || here !== url()) return next ? undefined : location.reload();
    const before = sent.get(here);
    if (before && frame(before) !== frame(next)) return location.reload();
    sent.clear();
    sent.set(here, next.cloneNode(true));
    const place = held();
    const top = scrollY;
    let changed = false;
    for (const part of PARTS) {
      const [old, fresh] = [document.querySelector(part), next.querySelector(part)];
      if (!old || !fresh) {
        if (old || fresh) return location.reload();
        continue;
      }
      if (before && before.querySelector(part)?.outerHTML === fresh.outerHTML) continue;
      changed = true;
      const kept = choices(old);
      const live = document.adoptNode(fresh);
      moveFigures(old, live);
      restore(live, kept);
      old.replaceWith(live);
    }
    if (changed || document.title !== next.title) {
      document.title = next.title;
      if (window.document$) window.document$.next(document);
      const head = place && document.getElementById(place.id);
      scrollTo({ top: head ? scrollY + head.getBoundingClientRect().top - place.top : top, behavior: "instant" });
    }
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
        const changed = state.seen !== settings.seen || here !== seenAt;
        [settings.seen, seenAt] = [state.seen, here];
        if (changed) {
          show(state.problem);
          if (state.html) await swap(here, state.html);
        }
      } catch {
        await new Promise((done) => setTimeout(done, 1000));
      }
    }
  };
  let seenAt = url();
  addEventListener("load", () => {
    show(settings.problem);
    remember().finally(wait);
  });
})();
