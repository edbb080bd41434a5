"""Experiments around the core: comparisons, arena, studies, generated corpora, benchmarks, analyses
and reports."""
