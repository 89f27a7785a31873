"""Charts that Plotly draws: lines, bars, heat maps, and those in steps."""
