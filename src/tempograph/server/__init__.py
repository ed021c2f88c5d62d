"""Runs behind HTTP: completion, scores, evidence and the facts around them, as JSON and as a page."""
