"""Tables, pages and traces made of records."""
