"""How good predictions are: metrics, validation against measurements."""
