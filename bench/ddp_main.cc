#include "bench/training/ddp_memory.h"
#include "bench/training/ddp_options.h"
#include "bench/training/ddp_run.h"
#include "bench/training/program.h"

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
  return bench::RunTrainingProgram(
      argc, argv,
      {flags, options, options.peers,
       [&](const comm::World& world) { bench::CompleteDdpOptions(flags, world, options); },
       [&] { return bench::SizeOfTraining(options); },
       [&](const comm::World& world, const model::DevicePtr& device) {
         return bench::MakeDdpTask(options, world, device);
       }});
}
