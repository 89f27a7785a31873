"""What a run found: counts by line, hazards in sentences, the table of both."""
