// In: the Playground, `.tw-play`. Out: play.js, fetched if the page has one.

const home = document.currentScript?.src ?? document.baseURI;

export async function openPlayground(article, signal) {
  const root = article.querySelector(".tw-play");
  if (root) (await import(new URL("play.js", home).href)).mount(root, signal);
}
