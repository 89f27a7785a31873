// The stepped figure as a script of its own, fetched by kinds.js where a page has such a figure.
import { stepped } from "./stepped.js";

globalThis.TilewiseStepped = stepped;
