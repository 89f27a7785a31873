// A kernel that a reader runs in a notebook's frame. In: what cli/notebook.py has put into the frame: the panel, its
// offer, the worker's script, machine.wasm.

import { mount } from "../run/main.js";
import { held, heldParts } from "./held.js";

const offer = JSON.parse(held("tw-offer"));
mount(document.querySelector(".tw-try"), new AbortController().signal, { offer, parts: await heldParts() });
const fit = () => window.frameElement && (window.frameElement.style.height = `${document.documentElement.offsetHeight + 4}px`);
new ResizeObserver(fit).observe(document.documentElement);
