// Without NVTX nothing loads this library, and nothing is in it.
