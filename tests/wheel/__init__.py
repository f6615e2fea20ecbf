"""What is installed without the repository."""
