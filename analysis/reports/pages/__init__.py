"""The pages that runs and comparisons leave: one document, one style, tables."""
