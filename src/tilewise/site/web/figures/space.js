// Cubes in 3-D, drawn by Plotly with WebGL: filled ones as one mesh, hollow ones as wireframes.
// In: cubes with positions and colours. Out: a drawing that can be updated in place and keeps its camera.

import { CONFIG, loadPlotly } from "./plotly_loader.js";

const CORNERS = [
  [0, 0, 0],
  [1, 0, 0],
  [1, 1, 0],
  [0, 1, 0],
  [0, 0, 1],
  [1, 0, 1],
  [1, 1, 1],
  [0, 1, 1],
];
const TRIANGLES = [
  [0, 2, 1],
  [0, 3, 2],
  [4, 5, 6],
  [4, 6, 7],
  [0, 1, 5],
  [0, 5, 4],
  [1, 2, 6],
  [1, 6, 5],
  [2, 3, 7],
  [2, 7, 6],
  [3, 0, 4],
  [3, 4, 7],
];
// Light of each pair of triangles: above (z runs down), below, and the four sides.
const SHADES = [1, 0.7, 0.9, 0.8, 0.9, 0.8];
const WIRE = [0, 1, 2, 3, 0, 4, 5, 1, 5, 6, 2, 6, 7, 3, 7, 4];

/**
 * @typedef {{at: number[], size: number, colour: string, hollow?: boolean}} Cube
 * @typedef {{at: number[], text: string, side?: string}} Name
 * @typedef {{cubes: Cube[], pin?: {at: number[], colour: string}, marked: {cube: Cube, colour: string, width: number}[], names: Name[],
 *   axes: string[], ink: string, wire: string, family: string, near?: number}} Scene
 */

/**
 * @param {HTMLElement} root
 * @param {{onPreview?: (cube: number|null) => void, onSelect?: (cube: number) => void}} listeners
 */
export function space(root, { onPreview = () => {}, onSelect = () => {} }) {
  let plotly = null;
  let drawn = false;
  let gone = false;
  /** @type {number[]} */
  let full = [];
  let turn = Promise.resolve();
  // While a button is down, Plotly says "click" after each redraw, also after the one that a click caused.
  let pressed = false;
  root.addEventListener("pointerdown", () => (pressed = true), true);

  const cubeOf = (event) => {
    const point = event.points?.[0];
    return point?.curveNumber === 0 ? (full[Math.floor(point.pointNumber / CORNERS.length)] ?? null) : null;
  };

  return {
    /** @param {Scene} scene @param {number} width @param {number} height @returns {Promise<void>} */
    draw(scene, width, height) {
      turn = turn
        .catch(() => {})
        .then(async () => {
          plotly = plotly || (await loadPlotly());
          if (gone) return;
          full = scene.cubes.flatMap((cube, at) => (cube.hollow ? [] : [at]));
          await plotly.react(root, traces(scene), layout(scene, width, height), CONFIG);
          if (drawn) return;
          drawn = true;
          root.on("plotly_hover", (event) => onPreview(cubeOf(event)));
          root.on("plotly_unhover", () => onPreview(null));
          root.on("plotly_click", (event) => {
            const cube = cubeOf(event);
            if (cube === null || !pressed) return;
            pressed = false;
            onSelect(cube);
          });
        });
      return turn;
    },
    dispose() {
      gone = true;
      if (plotly && drawn) plotly.purge(root);
    },
  };
}

/** @param {Scene} scene */
function traces({ cubes, pin, marked, names, ink, wire, family }) {
  const mesh = { x: [], y: [], z: [], i: [], j: [], k: [], facecolor: [] };
  for (const cube of cubes) {
    if (cube.hollow) continue;
    const base = mesh.x.length;
    for (const corner of corners(cube)) {
      mesh.x.push(corner[0]);
      mesh.y.push(corner[1]);
      mesh.z.push(corner[2]);
    }
    TRIANGLES.forEach(([a, b, c], face) => {
      mesh.i.push(base + a);
      mesh.j.push(base + b);
      mesh.k.push(base + c);
      mesh.facecolor.push(shaded(cube.colour, SHADES[face >> 1]));
    });
  }
  const lines = (wanted, colour, width) => ({
    type: "scatter3d",
    mode: "lines",
    ...wires(wanted),
    line: { color: colour, width },
    hoverinfo: "skip",
    showlegend: false,
  });
  return [
    {
      type: "mesh3d",
      ...mesh,
      flatshading: true,
      hoverinfo: "none",
      lighting: { ambient: 1, diffuse: 0, specular: 0, roughness: 1, fresnel: 0 },
    },
    lines(
      cubes.filter((cube) => cube.hollow),
      wire,
      1.5,
    ),
    {
      type: "scatter3d",
      mode: "text",
      x: names.map((name) => name.at[0]),
      y: names.map((name) => name.at[1]),
      z: names.map((name) => name.at[2]),
      text: names.map((name) => name.text),
      textposition: names.map((name) => name.side || "middle center"),
      textfont: { color: ink, size: 13, family },
      hoverinfo: "skip",
      showlegend: false,
    },
    ...marked.map(({ cube, colour, width }) => lines([cube], colour, width)),
    ...(pin ? [needle(cubes, pin)] : []),
  ];
}

/** A needle that sticks in a cube and ends above all others, so that a hidden cube can be found. */
function needle(cubes, { at: [x, y, z], colour }) {
  const above = Math.min(...cubes.map((cube) => cube.at[2])) - 2;
  return {
    type: "scatter3d",
    mode: "lines+markers",
    x: [x, x],
    y: [y, y],
    z: [z, above],
    line: { color: colour, width: 4 },
    marker: { color: colour, size: [0, 7], line: { width: 0 } },
    hoverinfo: "skip",
    showlegend: false,
  };
}

/** @param {Scene} scene */
function layout({ cubes, names, axes, ink, family, near = 1 }, width, height) {
  const low = width > 3.5 * height; // a strip: look from the front and from near
  const axis = (name, range, reversed) => ({
    title: { text: name, font: { size: 13, color: ink, family } },
    showticklabels: false,
    showgrid: false,
    zeroline: false,
    showline: false,
    showspikes: false,
    showbackground: false,
    ticks: "",
    range: reversed ? [...range].reverse() : range,
  });
  const ends = [0, 1, 2].map((at) => {
    const all = [...cubes, ...names].map((thing) => thing.at[at]);
    return [Math.min(...all) - 0.5, Math.max(...all) + 0.5];
  });
  ends[2][0] -= 2; // the needle and the blocks' names stand above
  const spread = ends.map(([first, last]) => last - first);
  const sides = spread.map((side) => side / Math.max(...spread));
  const away = 0.85 * Math.hypot(...sides) * Math.max(1, (0.8 * height) / width) * (low ? 0.55 : near);
  return {
    width,
    height,
    margin: { l: 0, r: 0, t: 0, b: 0 },
    paper_bgcolor: "rgba(0,0,0,0)",
    showlegend: false,
    uirevision: "camera",
    scene: {
      aspectmode: "manual",
      aspectratio: { x: sides[0], y: sides[1], z: sides[2] },
      dragmode: "orbit",
      bgcolor: "rgba(0,0,0,0)",
      xaxis: axis(spread[0] > 1 ? axes[0] : "", ends[0], false),
      yaxis: axis(spread[1] > 1 ? axes[1] : "", ends[1], true),
      zaxis: axis(spread[2] > 3 ? axes[2] : "", ends[2], true),
      camera: {
        eye: { x: (low ? 0.1 : 0.5) * away, y: -1.15 * away, z: 0.95 * away },
        center: { x: 0, y: 0, z: -0.06 }, // the axes' names hang below
      },
      uirevision: "camera",
    },
  };
}

/** @param {string} colour as `rgb(r,g,b)` @param {number} light */
function shaded(colour, light) {
  return `rgb(${colour.match(/\d+/g).map((part) => Math.round(Number(part) * light))})`;
}

/** @param {Cube} cube */
function corners(cube) {
  return CORNERS.map((corner) => corner.map((side, axis) => cube.at[axis] + (side - 0.5) * cube.size));
}

function wires(cubes) {
  const path = { x: [], y: [], z: [] };
  for (const cube of cubes) {
    const ends = corners(cube);
    for (const corner of WIRE) {
      path.x.push(ends[corner][0]);
      path.y.push(ends[corner][1]);
      path.z.push(ends[corner][2]);
    }
    for (const axis of [path.x, path.y, path.z]) axis.push(null);
  }
  return path;
}
