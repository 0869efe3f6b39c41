"""GPUs: data sheets with sources, architectures, clocks, and what is resident on an SM."""
