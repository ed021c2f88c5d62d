"""The pointer: learned copying of past and future facts."""
