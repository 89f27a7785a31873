"""From PTX to rows of numbers: one row for each instruction, as the engine executes them."""
