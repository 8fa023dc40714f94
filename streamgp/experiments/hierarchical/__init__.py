"""The studies of the hierarchical model."""
