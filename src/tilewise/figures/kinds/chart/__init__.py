"""Charts that Plotly draws: lines, bars and heat maps, optionally with a slider."""
