"""Each paper's tables and figures, one file a study. Knows models, fusion and gp."""
