"""Sums over ranks as schedules of transfers: what each rank sends to which other one, in which order (pure).

``schedule.py`` defines and checks them, ``known.py`` has those that settings name, ``stragglar.py`` one in which a rank
may be late, ``times.py`` says how long one takes on idle links, ``trace.py`` makes one of what ranks have sent.
"""
