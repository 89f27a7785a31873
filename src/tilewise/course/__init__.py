"""Lessons as their files say: cells, prose, terms, their order, and the rules they keep."""
