#include "bench/compare_options.h"
#include "bench/compare_run.h"
#include "bench/pytorch_peer.h"
#include "bench/rank_main.h"
#include "model/error.h"

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
  const auto check = [&](const comm::World& world) {
    CompleteCompareOptions(flags, world, options);
    const auto too_large = bench::TooLargeForThisHost(options, SizeOfTraining(options), world);
    gradsync::Require(!too_large, too_large.value_or(""));
    if (options.peers.wanted()) {
      bench::CheckPeerProgram(bench::FindPeerProgram(options.peers.python(), argv[0]));
    }
  };
  const auto prepare = [&](const comm::World& world) {
    if (world.launcher == "self")
      CompleteCompareOptions(flags, world, options);  // The checks ran in another process.
    return bench::MakeTrainingJob(options, world, argc, argv, [&](const model::DevicePtr& device) {
      return bench::MakeCompareTask(options, world, device, argv[0]);
    });
  };
  return bench::RunRankProgram(argc, argv, {flags, options.ranks, check, prepare});
}
