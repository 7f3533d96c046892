#include "bench/presets/run.h"

int main(int argc, char** argv) { return gradsync::bench::RunSuite(argc, argv); }
