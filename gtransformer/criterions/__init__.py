"""Training criteria that fairseq lacks."""
