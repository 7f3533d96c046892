#ifndef GRADSYNC_BENCH_LAUNCH_RANK_PROGRAM_H_
#define GRADSYNC_BENCH_LAUNCH_RANK_PROGRAM_H_

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
  // In every process, once: makes a plan of what the flags say, and returns the backends that it needs
  // (Variant::over). Throws InvalidInput if they do not fit together, or do not fit the world.
  std::function<std::vector<std::string>(const comm::World& world)> plan;
  // Looks at this host. Throws InvalidInput likewise, or TooLittleMemory. Called once before the ranks start,
  // where a launcher of its own started them once in each.
  std::function<void(const comm::World& world)> check;
  // Makes a rank's measurement. The rank outlives it. Throws InvalidInput if something that the flags name
  // cannot be used.
  std::function<std::unique_ptr<RankJob>(Rank& rank)> prepare;
  // Prints what takes no ranks to know. True: that is all that was asked for.
  std::function<bool(const comm::World& world)> answer = {};
};

// The main function of such a program: reads the flags; without a launcher starts the ranks, each by
// executing the program anew, as often as it is asked to, in each launch with the next seed; under torchrun,
// mpirun or srun is one of them. What was measured ends with its answer on one screen, by //tools:summarize,
// unless --answer=false. Returns the exit status (exit_status.h): kDone, kFailed, kBadArguments or kLacking.
int RunRankProgram(int argc, char** argv, const RankProgram& program);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LAUNCH_RANK_PROGRAM_H_
