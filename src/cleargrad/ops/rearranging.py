"""Rearranging."""
