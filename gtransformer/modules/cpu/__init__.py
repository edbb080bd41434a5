"""What the CPU does otherwise than PyTorch would: reached through ``gtransformer.modules.kernels`` alone."""
