"""CUDA C sources and launch inputs: parsing, types, options, tensor maps, cases."""
