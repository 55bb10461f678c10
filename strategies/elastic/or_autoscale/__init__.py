"""Or et al.'s autoscaling: more workers while the last ones have helped enough (MLSys 2020; pure).

Files in reading order: ``strategy`` (the method), ``autoscaling`` (how many workers still pay, and which stay slow).
"""

from strategies.elastic.or_autoscale.strategy import OrAutoscale as OrAutoscale
