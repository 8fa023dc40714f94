"""The three tolerances of the suite, each with its reason."""

REORDERED = 1e-12  # the same algebra in another order of additions
FACTORED = 1e-8  # the same quantity through another factorisation
SAMPLED = 0.05  # a mean over a few thousand draws
