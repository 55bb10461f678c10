"""When workers send the gradients that they hold (pure): sums on their way up a tree (STAR, section IV-D2).

Files in reading order: ``subtrees`` (the trees of senders, and the workers of one update), ``tree`` (the gate).
"""
