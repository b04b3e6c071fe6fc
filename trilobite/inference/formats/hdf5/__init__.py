"""A small reader of HDF5."""

from trilobite.inference.formats.hdf5.file import Group, open_file

__all__ = ["Group", "open_file"]
