"""The training loss of each family of models."""
