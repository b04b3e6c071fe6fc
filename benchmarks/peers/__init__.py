"""The other frameworks' side of a row: networks written once, over the few operations that each offers."""
