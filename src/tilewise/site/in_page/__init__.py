"""Compiling in the page, where it comes from no server: this package runs there, under Pyodide.

In: the texts of ``site/play``, and clang and LLVM's NVPTX backend as wasm, called by ``site/web/play``. Out:
what ``site/play/child.py`` answers. ``files`` puts the parts together when the site is built.
"""
