"""Decoding token by token: caches that follow from what the layers declare, or the whole prefix
again.
"""
