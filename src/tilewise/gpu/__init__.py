"""A GPU and what it says: launching through CuPy, timing, clocks, limits and hardware counters."""
