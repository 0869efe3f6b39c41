"""Accuracy on what was held out: ablation, learning curve, repeats, sensitivity."""
