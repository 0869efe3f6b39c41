"""Designs that multiply matrices, whose outer axes are filters and positions: tiles, launch, counts, limits.

`pointwise_conv2d` has two of them, `direct_conv2d` one; each says what its problem is as a `MatrixLayer`.
"""
