// Once a reader has loaded the compiler: pages that have been open are there without a network too. It stands at the root
// of the site, whose pages it serves. In: what they fetch. Out: what the network answers, which is kept; without one, what
// was kept. The compiler's large files are kept by compiler_worker.js.

import { isLarge, PAGES } from "./kept.js";

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  const address = new URL(url);
  if (method === "GET" && address.origin === location.origin && !isLarge(address)) event.respondWith(answered(event));
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
