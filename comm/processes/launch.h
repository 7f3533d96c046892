#pragma once

#include <chrono>
#include <span>

namespace gradsync::comm {

struct LaunchOptions {
  int world_size = 2;
  // If with_mpirun is true, Open MPI's mpirun starts the ranks. LaunchSelf sets environment variables that
  // allow mpirun to start more ranks than the host has cores, and to run as root.
  bool with_mpirun = false;
  // `settle` is the time from the first failure of a rank until LaunchSelf sends SIGTERM to the other ranks.
  // In this time the other ranks may print the cause of the failure. If all ranks end before this time has
  // passed, LaunchSelf does not wait for the rest of it. `settle` has no effect if with_mpirun is true:
  // mpirun itself stops the other ranks.
  std::chrono::milliseconds settle{1000};
  // `finish` is the time from the end of the first rank until LaunchSelf sends SIGTERM to the ranks that
  // still run. `finish` has no effect after a rank has failed, or if with_mpirun is true.
  std::chrono::milliseconds finish{60'000};
  // `grace` is the time from the signal that asks the ranks to stop (SIGTERM, or the signal that this process
  // received) until LaunchSelf kills the ranks that still run. If this process receives a second SIGINT,
  // SIGTERM or SIGHUP, LaunchSelf kills the ranks at once. `grace` is also the longest time for which
  // LaunchSelf waits to write its last line to stderr, for example if stderr is a full pipe.
  std::chrono::milliseconds grace{2000};
};

// Starts world_size processes of this program with the arguments argv (argv[0] included). If with_mpirun is
// true, argv[0] of these processes is instead the program's path. LaunchSelf tells each process its rank by
// environment variables; if with_mpirun is true, mpirun does so by its own variables. In both cases
// WorldFromEnvironment() (comm/rendezvous/world.h) returns, in each of these processes, a World with its rank
// and the launcher "self". The ranks find each other by files in a new directory under TMPDIR (else /tmp),
// which LaunchSelf removes at the end. LaunchSelf waits for all ranks. If SIGINT, SIGTERM or SIGHUP arrives
// while LaunchSelf waits, and is not ignored (nohup), LaunchSelf stops all ranks, and then this process ends
// by the same signal. Otherwise LaunchSelf returns the exit status for main:
//
//   0  every rank exited with 0
//   1  a rank failed, or did not end in time: the others were stopped, and the last line on stderr names the
//      first cause (with_mpirun: names mpirun)
//   2  the first cause is a rank, or mpirun, that exited with 2 (bad arguments): the others were stopped
//
// The first cause is the first rank that a signal killed; kills after LaunchSelf has asked the ranks to stop
// do not count. If no kill counts, the first cause is the first rank that exited with a status other than 0
// and 1. If all failed ranks exited with 1, the first cause is the rank that exited first among them. If no
// rank failed, the first cause is the lowest-numbered rank that did not end in time.
int LaunchSelf(const LaunchOptions& options, std::span<char* const> argv);

// A rank that finds bad arguments calls IsFirstToReport, so that only one rank of a launch prints the error.
// The rank prints the error only if IsFirstToReport returns true. Whether or not it has printed the error,
// the rank then exits with status 2. IsFirstToReport returns true for the first rank of a launch that calls
// it, and for every process that LaunchSelf did not start. IsFirstToReport also returns true if the file that
// marks the first report neither exists nor can be created.
bool IsFirstToReport();

}  // namespace gradsync::comm
