#ifndef GRADSYNC_COMM_RENDEZVOUS_JOB_H_
#define GRADSYNC_COMM_RENDEZVOUS_JOB_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/rendezvous/store.h"
#include "comm/rendezvous/world.h"

namespace gradsync::comm {

// What all ranks have to have in common, by name, in the order in which differences are looked for.
using Terms = std::vector<std::pair<std::string, std::string>>;

// Sleeps between looks at a store: short at first, because ranks usually start together.
class StorePoll {
 public:
  explicit StorePoll(Deadline deadline) : deadline_(deadline) {}
  // False once the deadline has passed.
  bool Again();

 private:
  const Deadline deadline_;
  std::chrono::microseconds pause_{250};
};

// "ranks 1, 2 did not arrive at file:///x within 60.0 s; arrived: 0, 3".
std::string MissingRanks(const World& world, std::chrono::milliseconds timeout,
                         const std::function<bool(int rank)>& has_arrived);

// The ranks of a job, which have found each other and agreed.
//
// A place may still hold what an earlier run left there. So every rank makes up a nonce and says hello with
// it; rank 0 answers with a run id and the nonces it has seen, as often as they change; a rank joins a run
// only if its own nonce is in it, and if rank 0's terms are its own. From then on all keys begin with the run
// id. As long as a job lives it holds its ranks' places: a second process that claims to be the same rank is
// told so. In a directory, jobs whose names are known do not meet at all; over TCP, rank 0 turns those of
// other jobs away.
class Job {
 public:
  // Returns when all ranks have arrived. Throws InvalidInput for a malformed url, CollectiveError, one line,
  // when ranks are missing after the timeout ("rank 0: rank 1 did not arrive at file:///x within 60.0 s;
  // arrived: 0, 2"), when they differ ("rank 0: --seed: rank 0 has 1, rank 1 has 2"), or the place cannot be
  // used.
  Job(const World& world, const Terms& terms, std::chrono::milliseconds timeout);
  // Removes what rank 0 left. Nobody else needs it once all have joined a group of the job.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Of this run and no other.
  const std::string& id() const { return run_id_; }
  // Where each rank is: equal for those that share a host, and with it loopback.
  const std::vector<std::string>& hosts() const { return hosts_; }
  Store& store() { return *store_; }
  // Counts up from 0, on all ranks alike if they form the same groups in the same order.
  int NextSession() { return next_session_++; }

 private:
  void Claim();
  void Serve(const Terms& terms);
  void Enter(const Terms& terms);
  // Rank 0: writes down the run and whoever has said hello; with a verdict, that the run will not be.
  void Answer(const std::string& verdict);
  // Rank 0: answers with the verdict, and throws it.
  [[noreturn]] void GiveUp(const std::string& verdict);
  // Other ranks: what rank 0 wrote, if it was written for this rank; else empty.
  std::string AnswerToMe();
  // Other ranks: takes part in the run that the answer speaks of, if it is still on, or throws.
  void Join(const std::string& answer, const Terms& terms);
  std::string Missing();
  void RemoveOwnKeys();
  std::string Key(std::string_view name) const;
  std::string Key(std::string_view name, int rank) const;
  [[noreturn]] void Throw(std::string_view cause) const;

  const World world_;
  const std::chrono::milliseconds timeout_;
  const Deadline deadline_;
  const std::string nonce_;
  const std::string host_;
  std::unique_ptr<Store> store_;
  std::string run_id_;                         // rank 0's nonce; empty until joined
  std::vector<std::string> hosts_;             // by rank
  std::optional<std::string> verdict_;         // rank 0: what the answer says; nullopt before the first
  std::map<std::string, std::string> hellos_;  // rank 0: those answered, by key
  std::atomic<int> next_session_{0};
};

// Lets all ranks meet before they do anything else, agree on the terms, on the size of the world and on the
// program that they run, and find out which of them share a host. Returns the world with the job in it, so
// that groups made later meet there, and with local_rank and local_size as they are; a world of one as it is.
// Throws like Job.
World JoinJob(const World& world, const Terms& terms, std::chrono::milliseconds timeout);

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_RENDEZVOUS_JOB_H_
