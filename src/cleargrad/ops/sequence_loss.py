"""Sequence loss."""
