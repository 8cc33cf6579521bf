"""Convolution."""
