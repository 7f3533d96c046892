#include "bench/training/program.h"

#include <optional>
#include <string>

#include "bench/launch/rank_main.h"
#include "bench/peers/pytorch.h"
#include "model/error.h"

namespace gradsync::bench {

int RunTrainingProgram(int argc, char** argv, const TrainingProgram& program) {
  const auto find_peer = [&] { return FindPeerProgram(program.peers.python(), argv[0]); };
  const auto check = [&](const comm::World& world) {
    program.complete(world);
    const std::optional<std::string> too_large = TooLargeForThisHost(program.options, program.size(), world);
    Require(!too_large, too_large.value_or(""));
    if (!program.peers.wanted()) return;
    CheckPeerProgram(find_peer(), program.peers.compiled(), program.options.ranks.device);
  };
  const auto prepare = [&](const comm::World& world) {
    if (world.launcher == "self") program.complete(world);  // The checks ran in another process.
    return MakeTrainingJob(program.options, world, argc, argv, [&](const model::DevicePtr& device) {
      TrainingTask task = program.make_task(world, device);
      if (program.peers.wanted()) task.peer_program = find_peer();
      return task;
    });
  };
  return RunRankProgram(argc, argv, {program.flags, program.options.ranks, check, prepare});
}

}  // namespace gradsync::bench
