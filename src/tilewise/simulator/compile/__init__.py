"""From CUDA C to PTX: clang, its headers, and its installation."""
