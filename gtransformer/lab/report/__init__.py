"""Pages of results: the table of exp_logs/, and results next to the papers' numbers."""
