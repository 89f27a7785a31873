"""The Playground: a page that runs any CUDA text, with a compiler on the reader's own machine.

In: texts from a page. Out: programs for it. ``compiling`` runs clang in a process with limits, ``requests``
says which requests are answered, ``page`` and ``server`` are those of ``tilewise play``, and ``examples`` run
without a compiler.
"""
