"""Comparisons, scheduled runs, measured results and automatic model choice."""
