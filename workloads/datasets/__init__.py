"""Data sets in their original formats: one file each, converted once to memory-mapped arrays."""
