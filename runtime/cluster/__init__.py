"""What machines are like, whoever runs jobs on them."""
