#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/launch/rank.h"
#include "bench/launch/rank_options.h"
#include "comm/rendezvous/world.h"
#include "model/base/flags.h"

namespace gradsync::bench {

// A measurement that one rank runs.
class RankJob {
 public:
  virtual ~RankJob() = default;
  // Throws if the measurement fails; what() is one line with the rank and the cause.
  virtual void Run() = 0;
};

// The parts of a benchmark program.
struct RankProgram {
  const char* experiment;  // name of the benchmark in records
  FlagTable& flags;
  RankOptions& options;
  // Makes a plan from the flags, and returns the backends that the plan needs (Variant::over). Called once in
  // every process. Throws InvalidInput if flags contradict each other or the world.
  std::function<std::vector<std::string>(const comm::World& world)> plan;
  // Checks this host. Throws InvalidInput or TooLittleMemory. Called once before the ranks start; if an
  // external launcher started the ranks, called once in each rank.
  std::function<void(const comm::World& world)> check;
  // Makes a rank's measurement. The rank outlives it. Throws InvalidInput if something that the flags name
  // cannot be used.
  std::function<std::unique_ptr<RankJob>(Rank& rank)> prepare;
  // Prints answers that need no ranks. Returns true if the program has nothing more to do.
  std::function<bool(const comm::World& world)> answer = {};
};

// The main function of a benchmark program. This function reads the flags. Without a launcher, for each
// launch it starts the ranks, by executing the program again for each rank, with a new seed for each launch.
// Under torchrun, mpirun or srun the process runs one rank. At the end it runs //tools:summarize to print the
// answer on one screen, unless --answer=false. Returns the exit status (exit_status.h): kDone, kFailed,
// kBadArguments or kLacking.
int RunRankProgram(int argc, char** argv, const RankProgram& program);

}  // namespace gradsync::bench
