#include "bench/learning/options.h"
#include "bench/learning/run.h"

int main(int argc, char** argv) {
  namespace bench = gradsync::bench;
  bench::ConvergenceOptions options;
  gradsync::FlagTable flags(
      "convergence",
      "Trains a small language model on text with each variant, from several seeds, and "
      "measures how its loss\n"
      "on held-out text falls over steps, over seconds and over bytes sent.\n"
      "  ./bazelw run //bench:convergence -- --variants=naive,core,none --out=DIR\n"
      "  ./bazelw run //bench:convergence -- --corpus=FILE --steps=2000 --out=DIR");
  options.AddTo(flags);
  return bench::RunConvergenceProgram(argc, argv, flags, options);
}
