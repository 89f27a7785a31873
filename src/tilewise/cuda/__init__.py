"""What a kernel's CUDA C and the inputs of a launch are: source, types, options, tensor maps, cases."""
