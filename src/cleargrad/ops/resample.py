"""Resample."""
