"""Ensembles: `ensemble_gate` weighs the parts, `ensemble_model` is the model."""
