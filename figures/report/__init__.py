"""``perfmodel report``: one self-contained HTML page for a ranking or a validation, readable without a network."""
