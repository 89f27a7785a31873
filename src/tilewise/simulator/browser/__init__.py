"""The simulator in a browser: the machine as WebAssembly, and what Python hands to the page's script.

``site/web/run`` is the other side: it lays out a launch, runs it and shows what it counted.
"""
