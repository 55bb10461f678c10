"""What decisions about nodes share: ``changes`` (what can be decided) and ``usage`` (what nodes use; pure)."""
