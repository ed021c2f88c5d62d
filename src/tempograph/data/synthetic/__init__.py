"""Synthetic worlds: invented facts with known rules."""
