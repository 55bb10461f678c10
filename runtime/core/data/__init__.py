"""The data service: which samples a worker gets, in which order, and which of them are in the parameters (pure).

Files in reading order: ``shards`` (the queue, and the fate of every sample), ``parts`` (of coded rounds),
``permutation`` (shuffles that are computed), ``sampling`` (from ranges to indices), ``holdout`` (samples never trained
on).
"""
