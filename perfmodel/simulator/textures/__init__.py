"""Texture and surface instructions: which texels they read, what the filter makes of them, which sectors they ask for."""
