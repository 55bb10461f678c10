"""The parts that commands share: options, lists of words, tables on the terminal, how they end."""
