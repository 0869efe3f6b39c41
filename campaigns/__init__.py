"""What makes this project's own records: `python -m campaigns`; nobody who installs perfmodel needs it."""
