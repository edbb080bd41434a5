"""Experiments with the core, generated corpora, analysis of trained models."""
