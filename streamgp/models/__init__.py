"""What a station believes: one method of the literature a file. Knows gp."""
