"""Who supervises and orders on the virtual clock, and what a plan changes when."""
