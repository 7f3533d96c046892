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

// Stands for "no other rank caused the failure": it is this rank's own, or follows from an earlier failure.
inline constexpr int kNobody = -1;
// Stands for "another rank caused the failure, but its number is unknown".
inline constexpr int kSomebody = -2;
// The start of an error message that blames a rank whose number is unknown.
inline constexpr char kAnotherRank[] = "another rank";

// Sending to another rank (the peer), or receiving from it, failed. what() names the peer.
class PeerError : public std::runtime_error {
 public:
  // `suspect` is the rank to blame, by its number in the whole job; kNobody if another collective of this
  // rank failed and closed the connections; kSomebody if the rank is unknown.
  PeerError(int suspect, const std::string& what) : runtime_error(what), suspect_(suspect) {}
  int suspect() const { return suspect_; }

 private:
  const int suspect_;
};

// The peer closed the connection, perhaps because it had lost a third rank.
class PeerClosed : public PeerError {
 public:
  using PeerError::PeerError;
};

// Finds the rank that failed first.
//
// A rank that fails closes its connections, so other ranks lose a connection to a rank that may be innocent.
// A rank that makes no progress may itself wait for another rank. Therefore each rank writes a note into the
// job's store before it closes anything: which rank it blames, and why. Before it reports, it reads the note
// of the rank that it blames, then the note of the rank that this note blames, and so on. The last note,
// which blames nobody, is the first cause. If a note blames an unknown rank, a rank without a note is the
// first cause.
//
// The store is in rank 0. After rank 0 has read the notes, it stores the first cause for ranks that fail
// later. If rank 0 left without a note, or did not answer, before a rank wrote its note, that rank reports
// rank 0 as the first cause. Ranks that have not joined a job (World::job) have no store, and report their
// own observation.
//
// Thread-safe. A process group made of several groups (backend hierarchical) shares one object with them.
class FirstCause {
 public:
  // `patience` is the longest time that a rank may wait for another rank before it fails.
  explicit FirstCause(const World& world, std::chrono::milliseconds patience = {});
  // Writes the note about this rank's failure, within six seconds. Only the first call has an effect.
  void Write(const std::exception& failure);
  // Waits for the notes of other ranks, and returns the first cause. Waits at most one second, plus
  // `patience` if this rank has seen no connection end. Call this after Write.
  std::string Read();

 private:
  struct Note {
    int suspect;
    std::string cause;
  };
  // Follows the notes from rank to rank, and stores the first cause in first_. Returns false if ranks blame
  // each other in a circle. Throws JobFailed; std::runtime_error if rank 0 cannot be reached.
  bool Follow(Deadline deadline);
  // Looks for the first cause if this rank's note blames an unknown rank. Stores in first_ another rank's
  // note that blames no rank or, without such a note, a rank that wrote none. Throws like Follow.
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
