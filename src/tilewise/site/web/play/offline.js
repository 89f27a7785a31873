// Once a reader has loaded the compiler: pages that have been open are there without a network too. It stands at the root
// of the site, whose pages it serves. In: what they fetch. Out: what the network answers, which is kept; without one, what
// was kept. The compiler's large files have hashes in their addresses, and compiler_worker.js keeps them.

const PAGES = "tilewise-pages";

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  const { origin, pathname, search } = new URL(url);
  const isLarge = search !== "" && pathname.includes("/compiler/");
  if (method === "GET" && origin === location.origin && !isLarge) event.respondWith(answered(event));
});

async function answered(event) {
  const kept = await caches.open(PAGES);
  try {
    const answer = await fetch(event.request);
    if (answer.status === 200) event.waitUntil(kept.put(event.request, answer.clone()));
    return answer;
  } catch (error) {
    const found = await kept.match(event.request, { ignoreVary: true });
    if (!found) throw error;
    return found;
  }
}
