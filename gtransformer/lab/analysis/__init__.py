"""Analyses of what was trained; never imported by training code."""
