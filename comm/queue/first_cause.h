#pragma once

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

// In place of a rank's number, means "no other rank caused the failure": for example, this rank itself
// failed, or an earlier failure on this rank is the cause.
inline constexpr int kNobody = -1;
// In place of a rank's number, means "another rank caused the failure, but its number is unknown".
inline constexpr int kSomebody = -2;
// If an error message that blames a rank of unknown number starts with this text, FirstCause may replace the
// text by "rank N".
inline constexpr char kAnotherRank[] = "another rank";

// Communication of this rank with other ranks failed. what() is the cause, and usually names the other rank
// (the peer) if its number is known.
class PeerError : public std::runtime_error {
 public:
  // `suspect` is the rank to blame, by its number in the whole job. It is kSomebody if another rank with an
  // unknown number is to blame, and kNobody if no other rank is to blame. For example, no other rank is to
  // blame if an earlier collective of this rank failed and closed the connections.
  PeerError(int suspect, const std::string& what) : runtime_error(what), suspect_(suspect) {}
  int suspect() const { return suspect_; }

 private:
  const int suspect_;
};

// The peer (the other rank of a connection) closed the connection or refused it, perhaps because it had lost
// a third rank.
class PeerClosed : public PeerError {
 public:
  using PeerError::PeerError;
};

// Finds the rank that failed first.
//
// With backends gloo and shm, a rank on which a collective fails closes its connections. So a rank may lose a
// connection to a rank that did not fail first. A rank that makes no progress may itself wait for another
// rank. Therefore a rank on which a collective fails writes a note into the job's store before it closes its
// connections: which rank it blames, and why. Before this rank throws CollectiveError, it reads the note of
// the rank that it blames, then the note of the rank that this note blames, and so on. The last of the notes
// that it finds tells the first cause. If this rank blames a rank without knowing its number, it searches the
// notes of the other ranks for one that blames no rank; if there is none, it blames a rank that has written
// no note.
//
// The job's store, which holds the notes, is in rank 0's process (comm/rendezvous/store.h). After rank 0 has
// read the notes, it makes the job fail with the cause that it found (Store::Fail), unless ranks blame each
// other in a circle; ranks that fail later report this cause. If rank 0's process ends without that, the
// store is gone. A rank that then loses a connection cannot write its note, and reports that rank 0 closed
// the connection. If the store does not answer a rank that blames another rank within five seconds, this rank
// reports that rank 0 made no progress. Ranks that have not joined a job (World::job is null) have no store,
// so each of them reports only the failure that it has seen itself.
//
// Thread-safe. A process group that is made of two inner groups (backend hierarchical) uses one FirstCause
// object together with them.
class FirstCause {
 public:
  // A rank that this rank blames may itself wait for another rank, and writes its note only when that wait
  // fails. `patience` is the longest time that such a wait takes; Read may wait that much longer for notes.
  explicit FirstCause(const World& world, std::chrono::milliseconds patience = {});
  // Writes the note about this rank's `failure` into the job's store. Takes at most six seconds: if the store
  // does not answer by then, the note may be missing. Only the first call on this object writes a note.
  void Write(const std::exception& failure);
  // Waits for the notes of other ranks, and returns the text of the first cause. Waits for notes for at most
  // one second, plus `patience` unless this rank failed because a peer closed its connection (PeerClosed). If
  // rank 0 does not answer, Read waits one second more. Call Read after Write.
  std::string Read();

 private:
  struct Note {
    int suspect;
    std::string cause;
  };
  // Reads the note of the rank that this rank blames, then the note of the rank that this note blames, and so
  // on. Copies the cause from the last note that it finds into the member first_. If the notes lead back to
  // this rank or to a rank whose note has been read, ranks blame each other in a circle: then copies this
  // rank's own cause, and returns false. Otherwise returns true. Throws JobFailed if the job has failed
  // (Store::Fail), and std::runtime_error if rank 0 cannot be reached.
  bool Follow(Deadline deadline);
  // Finds the first cause if this rank's note blames a rank of unknown number. Reads the notes of the other
  // ranks in the order of their numbers, and copies the cause from the first note that blames no rank into
  // the member first_. If there is no such note, and the cause in this rank's own note starts with
  // kAnotherRank, first_ becomes this cause with "rank N" in place of kAnotherRank; N is the lowest-numbered
  // rank that has written no note. Throws JobFailed and std::runtime_error as Follow does.
  void FindSilent(Deadline deadline);
  std::optional<Note> NoteOf(int rank, Deadline deadline) const;

  const std::shared_ptr<Job> job_;  // may be null
  const int rank_;
  std::vector<int> others_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::optional<Note> own_;
  std::string first_;          // the first cause known so far
  bool is_known_ = false;      // true if first_ is final
  bool has_seen_end_ = false;  // true if a connection ended
};

}  // namespace gradsync::comm
