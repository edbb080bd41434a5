"""Corpora of others: fetched, verified, unpacked, laid out in the raw corpus format."""
