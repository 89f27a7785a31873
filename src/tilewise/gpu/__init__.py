"""Running on a GPU: launches through CuPy, timing, clocks, ceilings and hardware counters."""
