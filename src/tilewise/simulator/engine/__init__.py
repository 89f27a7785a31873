"""The engine: C that executes rows warp by warp, and the memory and the traces around it."""
