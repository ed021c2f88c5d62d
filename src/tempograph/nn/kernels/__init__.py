"""Triton kernels; each has a plain PyTorch twin that the tests compare it with."""
