"""Command-line mains of the producing roles: replay and queries."""
