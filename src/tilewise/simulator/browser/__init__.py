"""The simulator in a browser: the machine as WebAssembly, and Python's data for the page's script.

``site/web/run`` is the script: it prepares a launch, runs it and shows the counts.
"""
