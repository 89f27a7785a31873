"""The results of a run: counts by line, hazards as sentences, the table of counts."""
