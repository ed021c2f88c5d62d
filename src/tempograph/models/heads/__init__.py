"""Heads: models of the relation and the time of a fact, which every run has beside its model."""
