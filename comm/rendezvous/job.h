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

// Names and values that must be equal on all ranks, such as flags. Errors name the first that differs.
using Terms = std::vector<std::pair<std::string, std::string>>;

// Returns "ranks 1, 2 did not arrive at file:///x within 60.0 s; arrived: 0, 3".
std::string DescribeMissingRanks(const World& world, std::chrono::milliseconds timeout,
                                 const std::function<bool(int rank)>& has_arrived);

// Calls `action`, and rethrows its exceptions as a CollectiveError that names this rank.
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

// The ranks of a job, after they have connected to rank 0 and compared their settings (Terms).
//
// With a rendezvous tcp://host:port, rank 0 listens at this address. With file:///directory it keeps its
// address in a file there until all ranks have joined; it then listens on loopback if the launcher says that
// all ranks are on this host, else on the address by which other hosts reach this host. The other ranks
// connect to rank 0, each side proves that it knows the job's secret (comm/rendezvous/protocol.h), and rank 0
// compares the terms. Rank 0 rejects processes of another job, of another start of this job (run), and a
// second process of a rank.
class Job {
 public:
  // Returns when all ranks have joined. Throws InvalidInput for a malformed url. Throws CollectiveError, one
  // line, if
  // - ranks are missing after the timeout: "rank 0: rank 1 did not arrive at file:///x within 60.0 s;
  //   arrived: 0, 2",
  // - terms differ: "rank 0: --seed: rank 0 has 1, rank 1 has 2", or
  // - the rendezvous cannot be used.
  Job(const World& world, const Terms& terms, std::chrono::milliseconds timeout);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Returns the host of each rank. Ranks that reach each other over loopback have equal hosts.
  const std::vector<std::string>& hosts() const { return hosts_; }
  // Returns the store through which ranks exchange values, valid until rank 0's Job is destroyed.
  Store& store() { return *store_; }
  // Returns a unique name for the next process group of these ranks. All of them get the same name if they
  // make their groups with exactly these members in the same order.
  std::string NextGroup(const std::vector<int>& members);

 private:
  void Serve(const Place& place, const std::string& host, const Terms& terms);
  void Enter(const Place& place, const std::string& host, const Terms& terms);
  std::unique_ptr<StoreClient> ConnectToRank0(const Place& place) const;
  // Returns whether another process is rank 0 at `place`, perhaps in an earlier run. Throws Refused if it
  // stays.
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

// Joins the job: the ranks check that their settings (`terms`), number of ranks and program are equal, and
// find out which ranks share a host. All ranks must call this before they make a process group. Raises this
// process's limit of descriptors to its maximum. Returns the world with the job, which process groups use,
// and with the actual local_rank and local_size. Returns a world of one rank unchanged. Throws like Job.
World JoinJob(const World& world, const Terms& terms, std::chrono::milliseconds timeout);

// Returns the host of each rank (Job::hosts). The ranks must have joined a job, unless there is one.
std::vector<std::string> HostsOf(const World& world);

// Returns a world of these ranks only. Error messages still use their numbers in `world`. Throws InvalidInput
// unless the ranks have joined a job, are in ascending order, and include this rank.
World PartOf(const World& world, const std::vector<int>& members);

}  // namespace gradsync::comm
