"""Random."""
