"""When workers send the gradients that they hold (pure): sums on their way up a tree (STAR, section IV-D2).

Files in reading order: ``routes`` (who sends through whom), ``subtrees`` (whose gradients make one update), ``tree``
(the gate).
"""
