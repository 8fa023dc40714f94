"""A process as a pure step, then a loop around it. Knows wire, gp, models and fusion."""
