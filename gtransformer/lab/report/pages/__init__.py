"""Self-contained HTML pages: comparison of systems, and inspection of a model."""
