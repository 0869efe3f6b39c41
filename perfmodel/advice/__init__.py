"""What to change in a kernel: candidates for changes, each as the profile that the kernel would then have, predicted again."""
