"""Tables, pages and traces generated from records."""
