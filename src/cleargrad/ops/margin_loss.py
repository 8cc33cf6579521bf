"""Margin loss."""
