// The compiler on the reader's own machine, where the page comes from it (site/play/requests.py).
// In: a text. Out: its kernels and a program, or what is wrong with it, as kernel/pasted.py has them.

/** Read once: a page that is swapped in has no such line. */
const told = /** @type {HTMLMetaElement | null} */ (document.querySelector('meta[name="tilewise-compiler"]'));

/** Whether texts can be compiled here. */
export const isHere = told !== null;

/** @param {{text: string, kernel?: string, defines?: object, options?: string[]}} given @param {AbortSignal} [signal] */
async function compile(given, signal) {
  const refused = (message) => ({ kernels: [], notes: [], faults: [{ line: 0, message, repair: "" }] });
  let answer;
  try {
    answer = await fetch(told.dataset.url, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Tilewise-Token": told.content },
      body: JSON.stringify(given),
      credentials: "omit",
      signal,
    });
    const made = await answer.json();
    return made.refused ? refused(made.refused) : made;
  } catch (error) {
    if (signal?.aborted) throw error;
    return refused(answer ? "The server's answer can't be read. Start it again." : "The server does not answer. Start it again.");
  }
}

/** Compiles the newest text that is wanted, one at a time; what has been overtaken is not told. */
export class Compiling {
  /** @param {(made: any, given: any) => void} tell @param {(isBusy: boolean) => void} busy @param {AbortSignal} signal */
  constructor(tell, busy, signal) {
    Object.assign(this, { tell, busy, signal, next: null, isBusy: false, pause: 0 });
    signal.addEventListener("abort", () => clearTimeout(this.pause));
  }

  /** Compile once nothing has been typed for a while. */
  soon(given, ms) {
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.now(given()), ms);
  }

  async now(given) {
    clearTimeout(this.pause);
    this.next = given;
    if (this.isBusy) return;
    this.isBusy = true;
    this.busy(true);
    while (this.next && !this.signal.aborted) {
      const wanted = this.next;
      this.next = null;
      try {
        const made = await compile(wanted, this.signal);
        if (!this.next && !this.signal.aborted) this.tell(made, wanted);
      } catch {
        break; // the page has been left
      }
    }
    this.isBusy = false;
    this.busy(false);
  }
}

/** Whether a program can be launched as another is: same name, same parameters. */
export const takesTheSame = (program, own) => program.name === own.name && JSON.stringify(program.parameters) === JSON.stringify(own.parameters);
