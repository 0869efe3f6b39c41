"""From counts to seconds: one physical term each, combined, with few named coefficients."""
