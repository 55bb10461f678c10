"""When workers send the gradients that they hold (pure): sums on their way up a tree (STAR, section IV-D2).

Files in reading order: ``subtrees`` (who sends through whom, and whose gradients make one update), ``tree`` (the gate).
"""
