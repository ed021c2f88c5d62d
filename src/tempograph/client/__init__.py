"""Clients of a service, with the methods of the Predictor."""
