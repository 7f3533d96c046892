#pragma once

#include <chrono>
#include <span>

namespace gradsync::comm {

struct LaunchOptions {
  int world_size = 2;
  // If true, Open MPI's mpirun starts the ranks, with options that allow more ranks than cores, and root as
  // the user.
  bool with_mpirun = false;
  // Time between the first failure and the request to the other ranks to stop. During this time the other
  // ranks may report the first cause. This time is cut short if all ranks have ended.
  std::chrono::milliseconds settle{1000};
  // Longest time between the ends of the first and the last rank. No other rank would detect that the last
  // rank hangs.
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

// Returns true in the first rank of a launch that calls this function. Ranks that find bad arguments call it,
// and only the first of these ranks prints the error. All ranks exit with 2. Returns true in a process that
// LaunchSelf did not start.
bool IsFirstToReport();

}  // namespace gradsync::comm
