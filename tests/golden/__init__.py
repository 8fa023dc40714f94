"""Snapshots as a release wrote them: what is kept here must stay readable."""
