#include "bench/ddp_memory.h"
#include "bench/ddp_options.h"
#include "bench/ddp_run.h"
#include "bench/pytorch_peer.h"
#include "bench/rank_main.h"
#include "model/error.h"

int main(int argc, char** argv) {
  namespace bench = gradsync::bench;
  namespace comm = gradsync::comm;
  namespace model = gradsync::model;
  bench::DdpOptions options;
  bench::FlagTable flags(
      "ddp",
      "Trains a model data-parallel on several ranks, and measures what each way of averaging the\n"
      "gradients costs: forward, backward, exposed synchronisation, optimizer.\n"
      "  bazel run //bench:ddp -- --model=small --batch_size=2 --seq_len=128 --out=DIR");
  options.AddTo(flags);
  const auto check = [&](const comm::World& world) {
    CompleteDdpOptions(flags, world, options);
    const auto too_large = bench::TooLargeForThisHost(options, SizeOfTraining(options), world);
    gradsync::Require(!too_large, too_large.value_or(""));
    if (options.peers.wanted()) {
      bench::CheckPeerProgram(bench::FindPeerProgram(options.peers.python(), argv[0]));
    }
  };
  const auto prepare = [&](const comm::World& world) {
    if (world.launcher == "self")
      CompleteDdpOptions(flags, world, options);  // The checks ran in another process.
    return bench::MakeTrainingJob(options, world, argc, argv, [&](const model::DevicePtr& device) {
      return bench::MakeDdpTask(options, world, device, argv[0]);
    });
  };
  return bench::RunRankProgram(argc, argv, {flags, options.ranks, check, prepare});
}
