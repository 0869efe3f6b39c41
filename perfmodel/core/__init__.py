"""What everything shares: constants, arrays of candidates, counts, checks of input, files written atomically."""
