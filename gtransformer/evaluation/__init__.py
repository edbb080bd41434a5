"""Scores: s-BLEU, d-BLEU, contrastive items."""
