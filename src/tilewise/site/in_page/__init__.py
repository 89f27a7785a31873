"""Compiling in a page that has no server: this package runs there, under Pyodide.

In: kernels as in ``site/play``; clang and LLVM's NVPTX backend as wasm, called by ``site/web/play``. Out: the
answers of ``site/play/child.py``. ``files`` collects the parts when the site is built.
"""
