"""From CUDA C to PTX: clang, the headers it is given, and where it is installed."""
