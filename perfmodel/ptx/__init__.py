"""PTX text to the form that the simulator executes."""
