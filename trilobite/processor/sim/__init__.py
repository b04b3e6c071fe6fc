"""Functional execution, timing, energy."""
