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

class RankJob {
 public:
  virtual ~RankJob() = default;
  // Measures. If this fails, throws an exception whose what() is one line with the cause.
  virtual void Run() = 0;
};

// What differs between benchmark programs: functions that RunRankProgram, their common main function, calls.
struct RankProgram {
  const char* experiment;  // name of the benchmark in records
  FlagTable& flags;
  RankOptions& options;
  // Decides from the flags what to measure, and returns the backends ("gloo", "hierarchical:inner=shm") for
  // which process groups are needed. Called once in every process. Throws InvalidInput if flags contradict
  // each other, or do not fit the number of ranks.
  std::function<std::vector<std::string>(const comm::World& world)> plan;
  // Throws InvalidInput or TooLittleMemory if this host cannot run the measurement. Called once before this
  // program starts the ranks; if torchrun, mpirun or srun started them, called in each rank.
  std::function<void(const comm::World& world)> check;
  // Makes the object that measures on one rank. `rank` lives longer than this object, which may keep a
  // reference to it. Throws InvalidInput if an input file that the flags name (such as --weights) cannot be
  // used.
  std::function<std::unique_ptr<RankJob>(Rank& rank)> prepare;
  // If the flags ask a question for which no ranks are needed (such as the memory estimate), prints the
  // answer and returns true; then the program ends without a measurement. Otherwise returns false. `answer`
  // may be empty: then the program measures.
  std::function<bool(const comm::World& world)> answer = {};
};

// The main function of a benchmark program. Reads the flags. If torchrun, mpirun or srun started the process,
// it runs one rank. If a user started it, it starts all ranks as new processes of the same program; it
// repeats this, with another seed, as often as --repeats, --precision and --choose say. At the end, unless
// --answer=false, it lets //tools:summarize print the results on one screen; if a launcher started ranks on
// several hosts, it prints the command with which the user can do so. Returns the exit status: kDone
// (success), kFailed (the program or a rank failed), kBadArguments, or kLacking (TooLittleMemory).
int RunRankProgram(int argc, char** argv, const RankProgram& program);

}  // namespace gradsync::bench
