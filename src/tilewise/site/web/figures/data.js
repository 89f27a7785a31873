// In: the URL of a figure's data, in a file or in an element of the page. Out: the data, fetched once, or an error
// that says what went wrong and what the reader can do. A later call retries a failed fetch.

/** @type {Map<string, Promise<any>>} */
const files = new Map();

export function fetched(url) {
  const [page, part] = url.split("#");
  if (part && page === document.baseURI.split("#")[0]) {
    return Promise.resolve().then(() => JSON.parse(document.getElementById(part).textContent));
  }
  if (!files.has(url)) {
    const file = ask(url);
    file.catch(() => files.delete(url));
    files.set(url, file);
  }
  return files.get(url);
}

async function ask(url) {
  const answer = await fetch(url).catch(() => {
    throw new Error(
      location.protocol === "file:"
        ? "Browsers fetch no data for pages opened as files. Serve the folder: python -m http.server"
        : "This figure's data could not be fetched: the server does not answer. Check the connection.",
    );
  });
  if (!answer.ok) {
    throw new Error(
      `This figure's data is not on the server (${answer.status}). If the site was built anew, reload the page.`,
    );
  }
  return answer.json().catch(() => {
    throw new Error("This figure's data arrived incomplete. Check the connection.");
  });
}
