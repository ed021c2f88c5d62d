"""Reports, text tables and plots."""
