"""What :mod:`stragglab.commands.verify` asks of a record besides its files."""
