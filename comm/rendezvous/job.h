#ifndef GRADSYNC_COMM_RENDEZVOUS_JOB_H_
#define GRADSYNC_COMM_RENDEZVOUS_JOB_H_

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
#include "comm/rendezvous/world.h"
#include "model/base/error.h"

namespace gradsync::comm {

// What must be equal on all ranks, by name. The first difference is the one that is reported.
using Terms = std::vector<std::pair<std::string, std::string>>;

// "ranks 1, 2 did not arrive at file:///x within 60.0 s; arrived: 0, 3".
std::string MissingRanks(const World& world, std::chrono::milliseconds timeout,
                         const std::function<bool(int rank)>& has_arrived);

// Calls `action`, and throws what it throws as a CollectiveError of this rank.
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

// The ranks of a job, which have found each other and agreed on their terms.
//
// Rank 0 listens at the place, or publishes there where it listens until all ranks have joined: on loopback
// if the launcher says that all ranks are on this host, else on the address by which other hosts reach this
// one. The others connect to it, each side proves that it knows the job's secret
// (comm/rendezvous/protocol.h), and rank 0 compares the terms. Processes of another job or run, and a second
// process of a rank, are turned away.
class Job {
 public:
  // Returns when all ranks have joined. Throws InvalidInput for a malformed url, CollectiveError, one line,
  // when ranks are missing after the timeout ("rank 0: rank 1 did not arrive at file:///x within 60.0 s;
  // arrived: 0, 2"), when they differ ("rank 0: --seed: rank 0 has 1, rank 1 has 2"), or the place cannot be
  // used.
  Job(const World& world, const Terms& terms, std::chrono::milliseconds timeout);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // The host of each rank: equal for ranks that reach each other over loopback.
  const std::vector<std::string>& hosts() const { return hosts_; }
  // Ends with rank 0's Job.
  Store& store() { return *store_; }
  // A unique name for the next group of these ranks. All of them get the same name, if they form the groups
  // of exactly these members in the same order.
  std::string NextGroup(const std::vector<int>& members);

 private:
  void Serve(const Place& place, const std::string& host, const Terms& terms);
  void Enter(const Place& place, const std::string& host, const Terms& terms);
  // Tries until the deadline.
  std::unique_ptr<StoreClient> ConnectToRank0(const Place& place) const;
  // Returns whether there is a rank 0 at the place already. Throws Refused if it stays there.
  bool HasRank0(const Place& place);
  JobIdentity identity() const { return {.name = world_.job_name, .secret = world_.job_secret}; }

  const World world_;
  const std::chrono::milliseconds timeout_;
  const Deadline deadline_;
  Deadline other_leaves_by_ = Deadline::max();
  std::unique_ptr<Store> store_;
  std::vector<std::string> hosts_;  // by rank
  std::mutex mutex_;
  std::map<std::vector<int>, int> num_groups_;  // by members
};

// Lets all ranks meet before they do anything else, agree on the terms, on the size of the world and on the
// program that they run, and find out which of them share a host. Raises this process's limit of descriptors
// as far as it may. Returns the world with the job in it, so
// that groups made later meet there, and with local_rank and local_size as they are; a world of one as it is.
// Throws like Job.
World JoinJob(const World& world, const Terms& terms, std::chrono::milliseconds timeout);

// Where each of the world's ranks is, by rank (Job::hosts). They have met, unless there is only one.
std::vector<std::string> HostsOf(const World& world);

// These of the world's ranks as a world of their own; names of ranks in messages stay. Throws InvalidInput
// unless they have met, are in rising order, and this rank is one of them.
World PartOf(const World& world, const std::vector<int>& members);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_RENDEZVOUS_JOB_H_
