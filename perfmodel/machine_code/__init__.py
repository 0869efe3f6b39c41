"""SASS: decoding, control flow, instruction mix and schedule."""
