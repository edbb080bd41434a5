"""Analyses of trained models; never imported by training code."""
