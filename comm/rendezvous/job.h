#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "comm/process_group.h"
#include "comm/rendezvous/place.h"
#include "comm/rendezvous/store.h"
#include "comm/rendezvous/store_client.h"
#include "comm/rendezvous/world.h"
#include "model/base/error.h"

namespace gradsync::comm {

// A list of the names and values of settings that must be equal on all ranks of a job, such as flags. If a
// rank's settings differ from those of rank 0, the job fails with an error that names the first setting that
// differs.
using Terms = std::vector<std::pair<std::string, std::string>>;

// Returns an error message that names the missing ranks, such as "ranks 1, 2 did not arrive at file:///x
// within 60.0 s; arrived: 0, 3".
std::string DescribeMissingRanks(const World& world, std::chrono::milliseconds timeout,
                                 const std::function<bool(int rank)>& has_arrived);

// Calls `action`, and returns its result. If `action` throws a std::runtime_error, throws a CollectiveError
// that names this rank and the cause.
template <class Action>
auto WithRendezvousErrors(const World& world, const Action& action) {
  std::string cause;
  try {
    return action();
  } catch (const JobFailed& error) {
    cause = error.what();
  } catch (const std::runtime_error& error) {
    cause = Join("rendezvous at ", world.rendezvous, ": ", error.what());
  }
  throw CollectiveError(Join("rank ", world.NameOf(world.rank), ": ", cause));
}

// A Job object makes this process a rank of a job. When the constructor returns, all ranks have connected to
// rank 0, and rank 0 has checked that all ranks have equal settings (Terms).
//
// With a rendezvous tcp://host:port, rank 0 listens at host:port. With file:///directory, rank 0 keeps its
// address in a file in the directory until all ranks have joined or the job fails. With file:///directory,
// rank 0 listens on loopback if world.local_size equals world.size (all ranks are on one host). With
// file:///directory and any other world.local_size, rank 0 listens at the address by which other hosts most
// likely reach its host (OwnAddress). The other ranks connect to rank 0. The two sides of a connection prove
// to each other that they know the job's secret (comm/rendezvous/protocol.h). Rank 0 then compares each
// rank's settings (`terms`) with its own, and the constructor throws if they differ. Rank 0 rejects a process
// whose job has another name or secret than the job of rank 0. Rank 0 also rejects a process that joins with
// the number of a rank whose earlier process is still connected one second later. With file:///directory, a
// process that reads an outdated file, which an earlier process of rank 0 wrote, tries again until it reaches
// rank 0 or the deadline passes.
class Job {
 public:
  // `world` must have at least two ranks. The constructor returns when all ranks have joined the job. Throws
  // InvalidInput if the url `world.rendezvous` is malformed. Throws CollectiveError, with a message of one
  // line, in three cases:
  // - If ranks are missing after the timeout, the message is, for example: "rank 0: rank 1 did not arrive at
  //   file:///x within 60.0 s; arrived: 0, 2".
  // - If a rank's settings (`terms`) differ from rank 0's, the message of CollectiveError is, for example:
  //   "rank 0: --seed: rank 0 has 1, rank 1 has 2".
  // - The constructor also throws CollectiveError if this rank cannot use the rendezvous, for example because
  //   it cannot listen at the address, or because rank 0 rejects this process.
  Job(const World& world, const Terms& terms, std::chrono::milliseconds timeout);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Returns, for each rank, a text that identifies its host (HostOf). Ranks with equal texts count as ranks
  // of one host.
  const std::vector<std::string>& hosts() const { return hosts_; }
  // Returns the key-value store through which the ranks of the job exchange values. The values are in rank
  // 0's process. No rank can use the store after rank 0 has destroyed its Job object.
  Store& store() { return *store_; }
  // Returns a prefix for the keys with which the next process group of the ranks `members` exchanges values
  // in the store. An empty `members` means all ranks of the job. No other process group of the job gets this
  // prefix. The n-th call with equal `members` returns the same prefix on all ranks. So if several process
  // groups have equal `members`, all ranks in `members` must make these groups in the same order.
  std::string NextGroup(const std::vector<int>& members);

 private:
  void Serve(const Place& place, const std::string& host, const Terms& terms);
  void Enter(const Place& place, const std::string& host, const Terms& terms);
  std::unique_ptr<StoreClient> ConnectToRank0(const Place& place) const;
  // Returns whether another process already serves as rank 0 at `place` (the rendezvous); for example rank 0
  // of an earlier start of this job. Throws Refused if the other process has another job name or secret. Also
  // throws Refused if another process is still rank 0 at `place` one second after HasRank0 first returned
  // true.
  bool HasRank0(const Place& place);
  JobIdentity identity() const { return {.name = world_.job_name, .secret = world_.job_secret}; }

  const World world_;
  const std::chrono::milliseconds timeout_;
  const Deadline deadline_;
  Deadline other_leaves_by_ = Deadline::max();
  std::unique_ptr<Store> store_;
  std::vector<std::string> hosts_;  // host of each rank
  std::mutex mutex_;
  std::map<std::vector<int>, int> num_groups_;  // number of groups with these members
};

// Joins the job: rank 0 checks that the settings (`terms`), the number of ranks and the program's executable
// are equal on all ranks, and each rank learns which ranks share a host. Either all ranks must call JoinJob
// before any of them makes a process group, or no rank may call JoinJob. If no rank calls JoinJob, each
// process group forms a job of its own. JoinJob raises this process's limit of open descriptors to the hard
// limit, because each rank needs up to four descriptors for each other rank. Returns a copy of `world` with
// the new Job (World::job), and with this rank's correct local_rank and local_size. Process groups that are
// made with this copy use the new Job. If `world` has only one rank, JoinJob only returns `world` unchanged,
// without a Job. Throws the exceptions of Job's constructor.
World JoinJob(const World& world, const Terms& terms, std::chrono::milliseconds timeout);

// Returns, for each rank of `world`, a text that identifies its host (Job::hosts), or one empty text if
// `world` has only one rank. Throws InvalidInput if `world` has several ranks that have not joined a job.
std::vector<std::string> HostsOf(const World& world);

// Returns a world that consists only of the ranks `members` of `world`. Error messages still name these ranks
// by their numbers in the whole job. Throws InvalidInput if `members` are not ranks of `world` in ascending
// order or do not include this rank, or if `world` has several ranks that have not joined a job.
World PartOf(const World& world, const std::vector<int>& members);

}  // namespace gradsync::comm
