"""DLRover: workers, servers and their cores follow from what they use while a job trains.

The Brain says what a job needs, measured while it runs, and which resources it is given for that; how a job gets there
is ``strategies.parts.scaling``.

Configuration: ``dlrover``. Card: ``docs/methods/dlrover.md``. Experiments: ``dlrover_*``. Paper tests:
``tests/paper/test_dlrover*.py``.

Files in reading order: ``strategy`` (the method), ``plan`` (how many workers and servers), ``history`` (what earlier
jobs used), ``used`` (what a sample says, and what nodes would use of their requests), ``adjust`` (rules of a running
job), ``brain`` (which of them when, one change at a time), ``planner`` (the Brain as a strategy holds it).
"""

from strategies.dlrover.strategy import DLRover as DLRover
