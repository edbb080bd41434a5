"""Experiments around the core: comparisons, arena, studies, made corpora, benchmarks, analyses and reports."""
