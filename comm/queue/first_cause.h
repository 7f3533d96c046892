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

// The value of PeerError::suspect() if no other rank caused the failure.
inline constexpr int kNobody = -1;
// The value of PeerError::suspect() if another rank caused the failure, but its number is unknown.
inline constexpr int kSomebody = -2;
// FirstCause may replace the words "another rank" at the start of an error message by "rank 3", for example.
inline constexpr char kAnotherRank[] = "another rank";

// The error that a backend throws if this rank's communication with other ranks fails.
class PeerError : public std::runtime_error {
 public:
  // `suspect` is the number of the rank that probably caused the failure. It is kSomebody if this number is
  // unknown, or kNobody if no other rank caused it. Ranks are numbered from 0 over all ranks of the job.
  PeerError(int suspect, const std::string& what) : runtime_error(what), suspect_(suspect) {}
  int suspect() const { return suspect_; }

 private:
  const int suspect_;
};

// The error that a backend throws if the other rank of a connection closed or refused the connection. A
// PeerClosed with the suspect kNobody means that this rank itself closed the connection.
class PeerClosed : public PeerError {
 public:
  using PeerError::PeerError;
};

// Finds the rank that failed first when several ranks fail, and the cause of its failure.
//
// A rank on which a collective fails usually closes its connections, so that collectives of other ranks fail
// later. In every backend except nccl, a rank on which a collective fails writes a note into the store of the
// job. A rank writes no note if World::job is null, or if this rank had aborted the group. The note says
// which rank the writer blames for the failure, if any, and why. Read goes from this rank's note to the note
// of the blamed rank, and so on. The last of these notes usually tells which rank failed first, and why.
//
// Thread-safe. If backend hierarchical makes an inner and an outer process group, these and the hierarchical
// group share one FirstCause object.
class FirstCause {
 public:
  // Unless this rank's failure is a PeerClosed, Read waits longer, by up to `patience`, for the notes of
  // other ranks.
  explicit FirstCause(const World& world, std::chrono::milliseconds patience = {});
  // Writes the note of this rank into the job's store: which rank this rank blames for `failure`, and why.
  // Write first waits while another thread is in Read or Write. After this wait, Write returns within six
  // seconds, even if the note could not be written. Only the first call on this object writes a note.
  void Write(const std::exception& failure);
  // Returns the text of the failure that most likely came first. Call Write with this rank's failure before
  // Read. Read goes from this rank's note to the blamed rank's note, and so on, and returns the last note's
  // cause. If the last note is another rank's, rank N, and blames no rank, Read returns "rank N failed: " and
  // the cause. If ranks blame each other in a circle, Read returns this rank's own cause. If this rank's
  // suspect is kSomebody, Read instead looks for another rank whose note blames no rank, or that has no note
  // (FindSilent). If the job failed before, Read returns the cause of the job's failure. If rank 0's store
  // cannot be reached, Read returns the cause found so far, or a text that blames rank 0. Read waits for the
  // notes of other ranks: at most two seconds plus the constructor's `patience`. On rank 0, the first call of
  // Read also makes the job fail (Store::Fail), unless ranks blame each other in a circle. The job's cause is
  // the returned cause, or "rank 0 failed: " and this cause if rank 0 blames no rank. If World::job is null,
  // Write writes no note, and Read returns the failure of this rank.
  std::string Read();

 private:
  struct Note {
    int suspect;
    std::string cause;
  };
  // Reads the note of the rank that this rank blames, then the note of the rank which that note blames, and
  // so on. If another rank, N, wrote the last note, first_ becomes the cause in this note. If this note
  // blames no rank, first_ is "rank N failed: " and the cause. Returns false if ranks blame each other in a
  // circle; first_ is then the cause in this rank's own note.
  bool Follow(Deadline deadline);
  // Follow calls FindSilent if own_->suspect is kSomebody. FindSilent reads the notes of the other ranks,
  // from the lowest rank on, until a note blames no rank. If the note of rank N blames no rank, first_
  // becomes "rank N failed: " and the cause in the note. If every note blames a rank, FindSilent looks for
  // the lowest rank N without a note. If such a rank N exists, and own_->cause begins with kAnotherRank,
  // first_ becomes own_->cause with "rank N" in place of kAnotherRank.
  void FindSilent(Deadline deadline);
  std::optional<Note> NoteOf(int rank, Deadline deadline) const;

  const std::shared_ptr<Job> job_;  // null if this rank has not joined a job
  const int rank_;
  std::vector<int> others_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::optional<Note> own_;
  std::string first_;          // the first cause known so far
  bool is_known_ = false;      // true if Read returns first_ without reading notes
  bool has_seen_end_ = false;  // true if this rank's failure is a PeerClosed
};

}  // namespace gradsync::comm
