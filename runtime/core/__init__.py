"""What both runtimes share, and all of it pure: the coordinator, its books, the data service."""
