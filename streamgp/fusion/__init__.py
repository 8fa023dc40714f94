"""What the cloud concludes from many. Knows gp."""
