"""Optimus: a speed model fitted to measured sizes, the steps that are left, and growth by gain per cost (pure).

Files in reading order: ``strategy`` (the method), ``speed`` (how fast the job is now, and with so many servers and
workers), ``remaining`` (how long still), ``planner`` (what to add, one addition after another).

Source: after Peng et al., "Optimus: an efficient dynamic resource scheduler for deep learning clusters", EuroSys 2018,
in the form that public re-implementations give it; DLRover section 6.3 for the increments of its comparison.
"""

from strategies.elastic.optimus.strategy import Optimus as Optimus
