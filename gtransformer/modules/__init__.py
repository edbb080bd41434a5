"""Attention: ragged layout, the dense and the packed engine, projections and the gate."""
