"""The engine: C code that executes rows warp by warp, with its memory and traces."""
