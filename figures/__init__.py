"""Figures, one module each, drawn from records and predictions alone."""
