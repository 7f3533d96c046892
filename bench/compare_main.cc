#include "bench/training/programs/job.h"

int main(int argc, char** argv) {
  namespace bench = gradsync::bench;
  bench::TrainingOptions options = bench::CompareDefaults();
  gradsync::FlagTable flags(
      "compare",
      "//bench:ddp with other defaults: trains ResNet-50 data-parallel with buckets of several sizes.\n"
      "  ./bazelw run //bench:compare -- --out=DIR                       a smaller version, in minutes\n"
      "  ./bazelw run //bench:compare -- --preset=published --out=DIR    the published experiment");
  options.AddTo(flags);
  return bench::RunTrainingProgram(argc, argv, flags, options);
}
