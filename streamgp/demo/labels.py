"""How methods are called where people read them."""

LABELS = {
    "persistence": "persistence",
    "local": "local",
    "cloud_untrimmed": "cloud, untrimmed",
    "cloud_trimmed": "cloud, trimmed",
    "chosen": "chosen",
    "network": "network",
}
