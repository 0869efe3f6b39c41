"""Networks as graphs of layers: layer lists, importers, and what each layer costs on a GPU."""
