"""Command-line mains of the consuming roles: agent, cloud, scorer, watch."""
