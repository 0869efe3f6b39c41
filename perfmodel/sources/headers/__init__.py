"""Stand-ins for headers of the C and C++ library, as far as device code uses them; data, no Python."""
