// The parts of plotly.js that figures use. Loaded when a figure that needs it is near the viewport.
import Plotly from "plotly.js/lib/core";
import bar from "plotly.js/lib/bar";
import heatmap from "plotly.js/lib/heatmap";
import mesh3d from "plotly.js/lib/mesh3d";
import scatter3d from "plotly.js/lib/scatter3d";

Plotly.register([bar, heatmap, mesh3d, scatter3d]);
globalThis.TilewisePlotly = Plotly;
