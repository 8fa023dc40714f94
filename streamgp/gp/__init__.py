"""The mathematics: pure functions on arrays. Knows no other room."""
