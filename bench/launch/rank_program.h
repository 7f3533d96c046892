#ifndef GRADSYNC_BENCH_LAUNCH_RANK_PROGRAM_H_
#define GRADSYNC_BENCH_LAUNCH_RANK_PROGRAM_H_

#include <functional>
#include <memory>
#include <string>

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
  // Called in every process: completes the options. Throws InvalidInput if they contradict each other or the
  // world.
  std::function<void(const comm::World& world)> complete;
  // Checks this host. Throws InvalidInput. Called once before the ranks start; if an external launcher
  // started them, once in each rank.
  std::function<void(const comm::World& world)> check;
  // Makes a rank's measurement. The rank outlives it. Throws InvalidInput if something that the flags name
  // cannot be used.
  std::function<std::unique_ptr<RankJob>(Rank& rank)> prepare;
  // Called after each launch from the second on: whether there are enough launches.
  std::function<bool(const std::string& launch_set)> is_enough = {};
  // Prints answers that need no ranks. True: the program is done.
  std::function<bool(const comm::World& world)> answer = {};
};

// The main function of such a program. It reads the flags. Without a launcher it starts the ranks, each by
// executing the program again, as often as --repeats says, with a new seed for each launch. Under torchrun,
// mpirun or srun it is one rank. A measurement ends with its answer on one screen, by //tools:summarize,
// unless --answer=false. Returns the exit status: 0 done, or help printed; 1 a rank failed; 2 bad arguments,
// named in one line on stderr.
int RunRankProgram(int argc, char** argv, const RankProgram& program);

}  // namespace gradsync::bench

#endif  // GRADSYNC_BENCH_LAUNCH_RANK_PROGRAM_H_
