#ifndef GRADSYNC_COMM_RENDEZVOUS_H_
#define GRADSYNC_COMM_RENDEZVOUS_H_

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "comm/store.h"
#include "comm/world.h"

namespace gradsync::comm {

// Ranks that have found each other, and notes between them that no other run can see.
//
// A place may still hold what an earlier run left there. So every rank makes up a nonce and says hello with
// it; rank 0 answers with a run id and the nonces it has seen, as often as they change; a rank joins a run
// only if its own nonce is in it. From then on all keys begin with the run id.
class Rendezvous {
 public:
  // Returns when all ranks have arrived. Throws InvalidInput for a malformed url, CollectiveError, one line,
  // when ranks are missing after the timeout ("rank 0: rank 1 did not arrive at file:///x within 60.0 s;
  // arrived: 0, 2"), were started for worlds of different sizes, or the place cannot be used.
  Rendezvous(const World& world, std::chrono::milliseconds timeout);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Throw CollectiveError if the place is gone. Each key is set once, by one rank.
  void Set(const std::string& key, std::string_view value);
  // Waits for the value, until the deadline of the whole rendezvous.
  std::string Get(const std::string& key);

  // Removes what this run left. To be called by every rank when all of them need nothing any more.
  void Finish();

 private:
  void Serve();
  void Enter();
  // Rank 0: writes down the run and whoever has said hello; with a verdict, that the run will not be.
  void Answer(const std::string& verdict);
  // Rank 0: answers with the verdict, and throws it.
  [[noreturn]] void GiveUp(const std::string& verdict);
  // Other ranks: what rank 0 wrote, if it was written for this rank; else empty.
  std::string AnswerToMe();
  bool HasArrived(int rank);
  std::string Missing();
  std::string Key(std::string_view name, int rank) const;
  [[noreturn]] void Throw(std::string_view cause) const;

  const World world_;
  const std::chrono::milliseconds timeout_;
  const Deadline deadline_;
  const std::string nonce_;
  std::unique_ptr<Store> store_;
  std::optional<std::string> verdict_;         // rank 0: what the answer says; nullopt before the first
  std::string run_id_;                         // rank 0's nonce; empty until joined
  std::map<std::string, std::string> hellos_;  // rank 0: those answered, by key
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_RENDEZVOUS_H_
