#ifndef GRADSYNC_COMM_QUEUE_FIRST_CAUSE_H_
#define GRADSYNC_COMM_QUEUE_FIRST_CAUSE_H_

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "comm/rendezvous/job.h"
#include "comm/rendezvous/world.h"

namespace gradsync::comm {

// Whom a failure is not blamed on: the failure is this rank's own, or follows from an earlier one.
inline constexpr int kNobody = -1;
// A rank is to blame, but it is not known which.
inline constexpr int kSomebody = -2;

// A message to or from a peer failed; what() names it.
class PeerError : public std::runtime_error {
 public:
  // `suspect`: the rank that is to blame, by the number that messages have for it; kNobody: another
  // collective of this rank failed and closed the connections.
  PeerError(int suspect, const std::string& what) : runtime_error(what), suspect_(suspect) {}
  int suspect() const { return suspect_; }

 private:
  const int suspect_;
};

// The peer closed the connection, which it may have done because of a third rank.
class PeerClosed : public PeerError {
 public:
  using PeerError::PeerError;
};

// Finds the rank that failed first.
//
// A rank that fails closes its connections, so others see it go that did nothing wrong; and a rank that waits
// in vain may wait for one that is waiting itself. So a rank writes into its job's store whom it blames,
// before it closes anything, and reads what that rank has written, before it reports: the last one in this
// chain, who blames nobody, is the first cause. Rank 0, which keeps the store, leaves what it has found there
// for ranks that fail when it has gone. If rank 0 has gone without a word or does nothing any more before a
// rank's note, rank 0 is the first cause. In a group without a job, whose ranks have no store, each rank
// reports what it saw. Thread-safe. One object serves all groups that a larger group is made of.
class FirstCause {
 public:
  // `patience`: for how long a rank that others wait for in vain may itself be waiting without having failed.
  explicit FirstCause(const World& world, std::chrono::milliseconds patience = {})
      : job_(world.job), rank_(world.NameOf(world.rank)), patience_(patience) {}
  // This rank's failure; only the first counts. Takes five seconds at most, if rank 0 does not answer.
  void Write(const std::exception& failure);
  // After Write: gives other ranks a second to write, or `patience` longer for one that is late, and returns
  // the first cause.
  std::string Read();

 private:
  struct Note {
    int suspect;
    std::string cause;
  };
  // Puts what the chain of notes says into first_. Returns false if the chain is a circle. Throws JobFailed;
  // std::runtime_error if the store is gone.
  bool Follow(Deadline deadline);

  const std::shared_ptr<Job> job_;  // may be null
  const int rank_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::optional<Note> own_;
  std::string first_;  // as far as it is known
  bool is_read_ = false;
  bool has_seen_end_ = false;  // of a connection
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_QUEUE_FIRST_CAUSE_H_
