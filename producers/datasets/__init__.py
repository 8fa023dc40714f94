"""Loaders of named data sets, and the few data files that ship with the project."""
