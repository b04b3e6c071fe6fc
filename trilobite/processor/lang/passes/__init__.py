"""Passes over kernel IR, one file each. A pass changes a function in place and says whether it did."""
