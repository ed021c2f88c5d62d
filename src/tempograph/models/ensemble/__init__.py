"""Ensembles: trained models combined by a gate."""
