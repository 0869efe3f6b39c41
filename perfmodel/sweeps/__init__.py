"""Sweeps: problems, their tuning spaces and GPUs, predicted on a Dask cluster into one Parquet file."""
