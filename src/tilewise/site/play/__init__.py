"""The Playground: a page that runs any CUDA kernel, with a compiler on the reader's own machine.

In: kernels from a page. Out: compiled programs. ``compiling`` runs clang in a process with limits,
``requests`` authorises requests, ``page`` and ``server`` belong to ``tilewise play``, and ``examples`` run
without a compiler.
"""
