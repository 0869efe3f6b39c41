"""How good the model is on runs that it did not see: splits, coverage, ablation, learning curve, repeats, residual learner."""
