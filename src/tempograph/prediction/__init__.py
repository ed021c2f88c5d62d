"""Answers with evidence from a trained run."""
