"""Measurements of speed: what an update is made of, and one command for a GPU."""
