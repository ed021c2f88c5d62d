"""Layers without data access: message passing, recurrence, attention, decoders, gates."""
