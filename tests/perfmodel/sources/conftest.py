"""What Inductor wrote is data of the tests: it imports Torch."""

collect_ignore = ["inductor_output.py"]
