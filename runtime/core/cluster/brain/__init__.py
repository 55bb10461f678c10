"""DLRover's Brain over the jobs of a set (section 4.3): it answers what strategies ask for their jobs (pure).

Its parts, as the paper calls them: the ``administrator`` keeps what finished jobs used, the optimizer (``brain``)
decides who gets what is free, the ``executor`` books and orders it. ``grants`` are the record that a new Brain
continues from, ``placing`` keeps jobs that start within the cores that are left.
"""
