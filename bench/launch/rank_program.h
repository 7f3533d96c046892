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
  // Runs one rank's part of the benchmark. If the benchmark fails on this rank, throws an exception whose
  // what() is one line with the cause.
  virtual void Run() = 0;
};

// A RankProgram has what differs between benchmark programs: name, flags, and the functions that
// RunRankProgram (their common main function) calls.
struct RankProgram {
  const char* experiment;  // name of the benchmark in records
  FlagTable& flags;
  RankOptions& options;
  // The function `plan` decides from the flags what to measure, and returns the backends ("gloo",
  // "hierarchical:inner=shm") for which process groups are needed. RunRankProgram calls `plan` once in every
  // process, but not with --help. `plan` throws InvalidInput if flags contradict each other, or do not fit
  // the number of ranks.
  std::function<std::vector<std::string>(const comm::World& world)> plan;
  // The function `check` throws InvalidInput or TooLittleMemory if this host cannot run the measurement. If a
  // user started the program, RunRankProgram calls `check` once, before it starts the ranks. If torchrun,
  // mpirun or srun started the ranks, RunRankProgram calls `check` in each rank.
  std::function<void(const comm::World& world)> check;
  // The function `prepare` makes a RankJob, which runs one rank's part of the benchmark. `rank` lives longer
  // than the RankJob, which may keep a reference to `rank`. `prepare` throws InvalidInput if an input file
  // that the flags name (such as --weights) cannot be used.
  std::function<std::unique_ptr<RankJob>(Rank& rank)> prepare;
  // Only programs with the flag --max_memory, which asks for an estimate of memory, set `answer`. If the user
  // gave --max_memory, `answer` prints the estimate on rank 0 and returns true, and the program ends without
  // a measurement. If the user did not give --max_memory, `answer` returns false.
  std::function<bool(const comm::World& world)> answer = {};
};

// Runs the benchmark `program`: reads its flags, and then starts its ranks or runs one rank. If torchrun,
// mpirun or srun started the process, the process runs one rank. If a user started the process, it starts all
// ranks as new processes of the same program. With --repeats, --precision or --choose, the process starts all
// ranks several times. The seed of each start is larger by 1 than that of the start before. After a success,
// RunRankProgram lets //tools:summarize print a summary of the results on one screen. If a launcher started
// ranks on several hosts, rank 0 prints, instead of the summary, the command that prints the summary. With
// --answer=false, RunRankProgram prints neither. Returns the exit status: kDone (success), kFailed (the
// program or a rank failed), kBadArguments, or kLacking (the host or a GPU has too little memory).
int RunRankProgram(int argc, char** argv, const RankProgram& program);

}  // namespace gradsync::bench
