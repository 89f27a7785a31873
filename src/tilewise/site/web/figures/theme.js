// The current colours of roles, from the page's CSS variables.
// In: an element of the page. Out: rgb strings for Plotly; SVG uses the variables themselves.

const TOKEN = /^role:([a-z0-9]+)(?:\/([01](?:\.\d+)?))?$/;

/**
 * @param {Element} place
 * @returns {(role: string, alpha?: number) => string}
 */
export function palette(place) {
  const probe = document.createElement("span");
  probe.hidden = true;
  place.append(probe);
  const known = new Map();
  const numbers = (role) => {
    if (!known.has(role)) {
      probe.style.color = `var(--tw-${role})`;
      known.set(role, getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number));
    }
    return known.get(role);
  };
  const read = (role, alpha = 1) => {
    const [red, green, blue] = numbers(role);
    return alpha === 1 ? `rgb(${red},${green},${blue})` : `rgba(${red},${green},${blue},${alpha})`;
  };
  /** A role's colour laid thinly over another. */
  read.over = (role, share, ground = "surface") => {
    const [top, below] = [numbers(role), numbers(ground)];
    return `rgb(${top.map((part, at) => Math.round(part * share + below[at] * (1 - share))).join(",")})`;
  };
  read.done = () => probe.remove();
  return read;
}

/**
 * A copy of a specification in which role tokens are colours.
 * @param {any} spec
 * @param {(role: string, alpha?: number) => string} colour
 * @returns {any}
 */
export function resolved(spec, colour) {
  if (typeof spec === "string") {
    const found = spec.startsWith("role:") ? TOKEN.exec(spec) : null;
    return found ? colour(found[1], found[2] === undefined ? 1 : Number(found[2])) : spec;
  }
  if (Array.isArray(spec)) return spec.map((part) => resolved(part, colour));
  if (spec && typeof spec === "object") {
    return Object.fromEntries(Object.entries(spec).map(([name, part]) => [name, resolved(part, colour)]));
  }
  return spec;
}
