#include "bench/training/compare_options.h"
#include "bench/training/compare_run.h"
#include "bench/training/program.h"

int main(int argc, char** argv) {
  namespace bench = gradsync::bench;
  namespace comm = gradsync::comm;
  namespace model = gradsync::model;
  bench::CompareOptions options;
  bench::FlagTable flags(
      "compare",
      "Trains ResNet-50 data-parallel with buckets of several sizes, and compares ways of averaging the\n"
      "gradients at each of them: forward and backward, against `core`.\n"
      "  bazel run //bench:compare -- --out=DIR                       a smaller version, in minutes\n"
      "  bazel run //bench:compare -- --preset=published --out=DIR    the published experiment");
  options.AddTo(flags);
  return bench::RunTrainingProgram(
      argc, argv,
      {flags, options, options.peers,
       [&](const comm::World& world) { bench::CompleteCompareOptions(flags, world, options); },
       [&] { return bench::SizeOfTraining(options); },
       [&](const comm::World& world, const model::DevicePtr& device) {
         return bench::MakeCompareTask(options, world, device);
       }});
}
