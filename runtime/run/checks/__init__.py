"""Whether one job can run: all parts of its configuration are built and checked before anything starts.

Files in reading order: ``job`` (all of it; each subject is left to one of the others), ``facts`` (of a job), ``rules``
(the combinations of settings that are refused, in their order: ``backends``, ``strategies``, ``topologies``,
``devices``, ``hogs``, which is other work on GPUs), ``resources`` (of the machine).
"""
