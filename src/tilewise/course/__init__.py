"""Lessons as parsed from their files: cells, prose, terms, their order, and the rules for them."""
