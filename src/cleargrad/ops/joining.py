"""Joining."""
