"""Or et al.'s autoscaling: more workers while the last ones have helped enough (MLSys 2020; pure).

Files in reading order: ``strategy`` (the method), ``autoscale`` (how many workers still pay), ``replacing`` (which
workers stay slow), ``autoscaling`` (one change after another).
"""

from strategies.elastic.or_autoscale.strategy import OrAutoscale

__all__ = ["OrAutoscale"]
