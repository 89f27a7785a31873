"""Lets the tests of this folder import the fake GPU of the measurements' tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "measurements"))
