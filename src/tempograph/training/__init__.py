"""From a dataset and settings to a trained run."""
