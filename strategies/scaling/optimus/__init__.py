"""Optimus: a speed model fitted to measured sizes, the steps that are left, and growth by gain per cost (pure).

``speed`` (how fast with so many servers and workers), ``loss`` (how long still), ``greedy`` (what to add).

Source: after Peng et al., "Optimus: an efficient dynamic resource scheduler for deep learning clusters", EuroSys 2018,
in the form that public re-implementations give it; DLRover section 6.3 for the increments of its comparison.
"""
