// The part of plotly.js that figures use. Loaded when a figure that needs it comes near.
import Plotly from "plotly.js/lib/core";
import bar from "plotly.js/lib/bar";
import contour from "plotly.js/lib/contour";
import heatmap from "plotly.js/lib/heatmap";
import isosurface from "plotly.js/lib/isosurface";
import mesh3d from "plotly.js/lib/mesh3d";
import scatter3d from "plotly.js/lib/scatter3d";
import surface from "plotly.js/lib/surface";

Plotly.register([bar, contour, heatmap, isosurface, mesh3d, scatter3d, surface]);
globalThis.TilewisePlotly = Plotly;
