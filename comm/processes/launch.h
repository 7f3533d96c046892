#pragma once

#include <chrono>
#include <span>

namespace gradsync::comm {

struct LaunchOptions {
  int world_size = 2;
  // Open MPI's mpirun starts the ranks. It accepts more ranks than cores, and root.
  bool with_mpirun = false;
  // Time between the first failure and the request to the other ranks to stop. During this time they may
  // report the first cause. Ends early when all have ended.
  std::chrono::milliseconds settle{1000};
  // Longest time between the ends of the first and the last rank: nobody waits for the work that a rank still
  // does alone.
  std::chrono::milliseconds finish{60'000};
  // Time between the request to stop (SIGTERM, or the signal that this process received) and the kill. Also
  // the longest wait for a blocked stderr before the last line is written.
  std::chrono::milliseconds grace{2000};
};

// Starts world_size processes of this program with the arguments argv (argv[0] included). The environment
// describes the ranks: WorldFromEnvironment() then returns launcher "self". With mpirun, mpirun sets the
// variables of ranks. The rendezvous is a new directory under TMPDIR, removed at the end. Waits for all ranks
// and returns the exit status for main:
//
//   0  every rank exited with 0
//   1  a rank failed, or did not end in time: the others were stopped, and the last line on stderr names the
//      first cause
//   2  the first rank to fail exited with 2 (bad arguments): the others were stopped
//
// The first cause is a rank that was killed; else one that exited with a status other than 1 (a rank that
// exits with 1 has printed a cause); else the one that ended first.
int LaunchSelf(const LaunchOptions& options, std::span<char* const> argv);

// For ranks that find bad arguments. Returns true for the first rank of a launch that calls this; this rank
// prints the error. All exit with 2. Returns true in a process that LaunchSelf did not start.
bool IsFirstToReport();

}  // namespace gradsync::comm
