"""What everyone may import: dtypes, errors, source locations, pytrees. Imports no other room."""
