// The service worker, installed once a reader has loaded the compiler, so that visited pages work offline. It is at the
// root of the site, because its scope is its folder. In: the pages' requests. Out: the network's response, which it
// caches; offline, the cached one. compiler_worker.js caches the compiler's large files.

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
