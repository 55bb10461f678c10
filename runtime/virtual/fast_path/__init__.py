"""Jobs whose rounds are so regular that many events can be computed at once."""
