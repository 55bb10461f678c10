"""Run one job, or with -m a sweep of jobs: ``python run.py --help`` says how."""

from runtime.quitting import quit_with_a_line

if __name__ == "__main__":
    quit_with_a_line()  # importing the rest takes long enough for a Ctrl-C
    from stragglab.command import main

    main()
