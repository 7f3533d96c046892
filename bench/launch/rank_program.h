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

// A measurement as one rank runs it.
class RankJob {
 public:
  virtual ~RankJob() = default;
  // Throws if the measurement fails; what() is one line with the rank and the cause.
  virtual void Run() = 0;
};

// A program that is one benchmark.
struct RankProgram {
  const char* experiment;  // its name in records
  FlagTable& flags;
  RankOptions& options;
  // Called once in every process: makes a plan from the flags, and returns the backends that it needs
  // (Variant::over). Throws InvalidInput if flags contradict each other or the world.
  std::function<std::vector<std::string>(const comm::World& world)> plan;
  // Checks this host. Throws InvalidInput or TooLittleMemory. Called once before the ranks start; if an
  // external launcher started them, once in each rank.
  std::function<void(const comm::World& world)> check;
  // Makes a rank's measurement. The rank outlives it. Throws InvalidInput if something that the flags name
  // cannot be used.
  std::function<std::unique_ptr<RankJob>(Rank& rank)> prepare;
  // Prints answers that need no ranks. True: the program is done.
  std::function<bool(const comm::World& world)> answer = {};
};

// The main function of such a program. It reads the flags. Without a launcher it starts the ranks, each by
// executing the program again, once for each launch, with a new seed for each launch. Under torchrun, mpirun
// or srun it is one rank. A measurement ends with its answer on one screen, by //tools:summarize, unless
// --answer=false. Returns the exit status (exit_status.h): kDone, kFailed, kBadArguments or kLacking.
int RunRankProgram(int argc, char** argv, const RankProgram& program);

}  // namespace gradsync::bench
