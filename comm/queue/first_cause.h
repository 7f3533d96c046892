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

// A value of PeerError::suspect() in place of a rank's number: no other rank caused the failure, for example
// because this rank itself failed, or because of an earlier failure on this rank.
inline constexpr int kNobody = -1;
// A value of PeerError::suspect() in place of a rank's number: another rank caused the failure, but its
// number is unknown.
inline constexpr int kSomebody = -2;
// If the message of an error with the suspect kSomebody starts with the words "another rank", the class
// FirstCause may replace these two words by "rank N", where N is the rank that it finds.
inline constexpr char kAnotherRank[] = "another rank";

// The error that a backend throws if this rank's communication with other ranks fails. what() is the cause of
// the failure, and may name the other rank (the peer).
class PeerError : public std::runtime_error {
 public:
  // `suspect` is the number of the rank that caused the failure as far as this rank knows (the rank that it
  // blames). The number counts from 0 over all ranks of the job. `suspect` is kSomebody if another rank with
  // an unknown number is to blame, and kNobody if no other rank is to blame. For example, no other rank is to
  // blame if an earlier collective of this rank failed and closed the connections.
  PeerError(int suspect, const std::string& what) : runtime_error(what), suspect_(suspect) {}
  int suspect() const { return suspect_; }

 private:
  const int suspect_;
};

// The error that a backend throws if the peer (the other rank of a connection) closed the connection or
// refused it, perhaps because the peer had lost a third rank.
class PeerClosed : public PeerError {
 public:
  using PeerError::PeerError;
};

// Finds the rank that failed first when several ranks fail, so that error messages can name this rank and its
// failure.
//
// With backends gloo and shm, a rank on which a collective fails closes its connections. So a rank may lose
// its connection to a second rank, although a third rank failed first. And if a rank waits for a second rank
// until the timeout, the second rank may itself have waited for a third rank, which failed first. Therefore,
// before it closes its connections, a rank on which a collective fails writes a note into the store that all
// ranks of the job share: which rank it blames for the failure, and why. Before the rank throws
// CollectiveError, it reads the note of the rank that it blames, then the note of the rank that this note
// blames, and so on. The last of the notes that it finds tells the first cause. If the rank blames another
// rank whose number it does not know, it reads the notes of all other ranks (see FindSilent).
//
// The store, which holds the notes, is in rank 0's process (comm/rendezvous/store.h). After rank 0 has read
// the notes, it calls Store::Fail, unless the notes blame ranks in a circle: for example, rank 0 blames rank
// 1, and rank 1 blames rank 0. Store::Fail makes the job fail with the cause that rank 0 found: if a
// collective fails on another rank later, that rank's error message has this cause. If rank 0's process ends
// without a call of Store::Fail, the notes are lost. A rank that loses a connection after rank 0 has ended
// reports that rank 0 closed the connection. If the store does not answer for five seconds when a rank writes
// a note that blames another rank, the rank's error message says that the store of rank 0 does not answer.
// Ranks that have not joined a job (World::job is null) have no store, so each of them reports only the
// failure that it has seen itself.
//
// Thread-safe. On each rank of backend hierarchical, the groups of all ranks, of one host and between hosts
// share one FirstCause object, so that all three report the same first cause.
class FirstCause {
 public:
  // Read waits up to one second plus `patience` for the notes in which other ranks say why they failed. A
  // rank that still waits for another rank writes its note only when its wait fails.
  explicit FirstCause(const World& world, std::chrono::milliseconds patience = {});
  // Writes the note, which says which rank this rank blames for its `failure` and why, into the job's store.
  // Write takes at most six seconds: if the store does not answer by then, the note may be missing. Only the
  // first call on this object writes a note.
  void Write(const std::exception& failure);
  // Returns the cause of the failure that came first, as far as the ranks' notes tell it. Before Read, call
  // Write with this rank's failure. If this failure is a PeerClosed, Read waits at most two seconds for other
  // ranks' notes. After any other failure, Read waits at most two seconds plus the constructor's `patience`.
  std::string Read();

 private:
  struct Note {
    int suspect;
    std::string cause;
  };
  // Reads the note of the rank that this rank blames for its failure, then the note of the rank that this
  // note blames, and so on. Copies the cause from the last note that it finds into the member first_, the
  // text of the first cause. If one of the notes blames this rank, or a rank whose note Follow has already
  // read, ranks blame each other in a circle: Follow then copies the cause from this rank's own note into
  // first_, and returns false. Otherwise Follow returns true. Throws JobFailed if the job has failed
  // (Store::Fail), and std::runtime_error if rank 0 cannot be reached.
  bool Follow(Deadline deadline);
  // Call FindSilent if this rank blames another rank for its failure, but does not know which. FindSilent
  // sets the member first_, the text of the first cause. It reads the other ranks' notes (why they failed) in
  // the order of the ranks' numbers. If a note blames no rank, first_ becomes "rank N failed: " and the cause
  // in this note of rank N. If no such note exists, FindSilent looks for the lowest-numbered rank N without a
  // note. If there is such a rank N, and this rank's own cause starts with "another rank" (kAnotherRank),
  // first_ becomes this cause with "rank N" in place of "another rank". FindSilent throws JobFailed if a rank
  // has called Store::Fail, and std::runtime_error if rank 0 cannot be reached.
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
