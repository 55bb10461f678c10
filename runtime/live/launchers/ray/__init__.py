"""``launcher=ray``: agents on the nodes of a Ray cluster, which places and ends them and carries nothing else.

::

    run.py (in namespaces)  <-- pipe -->  broker (outside)  -->  visit (one process a job: speaks to Ray)
      ^                                                             |
      |  token proved, then orders                                  |  an actor on every node
      +--------------------------- agent on every node  <-----------+
"""
