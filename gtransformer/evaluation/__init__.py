"""Scores, their significance, contrastive suites, pronoun and formality F1."""
