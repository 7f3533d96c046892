#ifndef GRADSYNC_COMM_QUEUE_FIRST_CAUSE_H_
#define GRADSYNC_COMM_QUEUE_FIRST_CAUSE_H_

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/rendezvous/job.h"
#include "comm/rendezvous/world.h"

namespace gradsync::comm {

// No rank is to blame: the failure is this rank's own, or follows from an earlier one.
inline constexpr int kNobody = -1;
// A rank is to blame, but it is not known which.
inline constexpr int kSomebody = -2;
// How a message that blames somebody begins.
inline constexpr char kAnotherRank[] = "another rank";

// A message to or from a peer failed; what() names it.
class PeerError : public std::runtime_error {
 public:
  // `suspect`: the rank that is to blame, by its number in messages; kNobody: another collective of this rank
  // failed and closed the connections; kSomebody.
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
// A rank that fails closes its connections, so other ranks see it leave although it did nothing wrong; and a
// rank that makes no progress may itself be waiting for another. Therefore each rank writes a note into the
// job's store before it closes anything: which rank it blames, and why. Before it reports, it reads the note
// of the rank that it blames, then the note of the rank that is blamed there, and so on. The last note, which
// blames nobody, is the first cause. If nobody knows which rank is to blame, it is one without a note.
//
// Rank 0 keeps the store. When it has read the notes, it leaves the first cause for ranks that fail after it
// has gone. If rank 0 had gone without a word, or did not answer, before a rank wrote its note, rank 0 is the
// first cause. Without a job there is no store, and each rank reports what it saw.
//
// Thread-safe. One object serves all groups that a larger group is made of.
class FirstCause {
 public:
  // `patience`: how long a rank that makes no progress may itself be waiting for another before it fails.
  explicit FirstCause(const World& world, std::chrono::milliseconds patience = {});
  // Notes this rank's failure; only the first call counts. Takes six seconds at most, if rank 0 does not
  // answer.
  void Write(const std::exception& failure);
  // After Write: waits a second for the notes of other ranks, or `patience` longer if the suspect is late,
  // and returns the first cause.
  std::string Read();

 private:
  struct Note {
    int suspect;
    std::string cause;
  };
  // Puts what the chain of notes says into first_. Returns false if the chain is a circle. Throws JobFailed;
  // std::runtime_error if the store is gone.
  bool Follow(Deadline deadline);
  // Likewise if this rank's note blames somebody: a rank without a note, unless another rank's blames nobody.
  void FindSilent(Deadline deadline);
  std::optional<Note> NoteOf(int rank, Deadline deadline) const;

  const std::shared_ptr<Job> job_;  // may be null
  const int rank_;
  std::vector<int> others_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::optional<Note> own_;
  std::string first_;          // as far as it is known
  bool is_known_ = false;      // for good
  bool has_seen_end_ = false;  // of a connection
};

}  // namespace gradsync::comm

#endif  // GRADSYNC_COMM_QUEUE_FIRST_CAUSE_H_
