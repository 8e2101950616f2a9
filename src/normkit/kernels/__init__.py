"""Compiled kernels: one folder a device."""
