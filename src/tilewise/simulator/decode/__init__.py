"""From PTX to rows of numbers: one row per instruction, for the engine."""
