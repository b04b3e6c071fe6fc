"""Applications: what the house is for, each runnable by name."""
