"""Filtered ranking, metrics, calibration and analysis of ranks."""
