"""What crosses the network and how it is carried. Knows no other room."""
