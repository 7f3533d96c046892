#pragma once

// The main function of every cuda_test; one that has a main of its own calls this from there.
//
// Runs the tests where there is a GPU, and returns their status. Where CUDA finds none, runs nothing, says
// why in one line on stderr, and returns 1. `--gpus=N`: with fewer GPUs than that it says so, and returns 0.
int RunGpuTests(int argc, char** argv);
