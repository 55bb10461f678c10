"""What is measured of a record, or of many."""
