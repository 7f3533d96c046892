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

// Stands for "no other rank caused the failure": this rank itself failed, or an earlier failure on this rank
// is the cause.
inline constexpr int kNobody = -1;
// Stands for "another rank caused the failure, but its number is unknown".
inline constexpr int kSomebody = -2;
// The start of an error message that blames a rank whose number is unknown.
inline constexpr char kAnotherRank[] = "another rank";

// Sending to another rank (the peer), or receiving from it, failed. what() is the cause, and names the peer
// if it is known.
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
// of the rank that it blames, then the note of the rank that this note blames, and so on. The last of these
// notes, which blames no other rank, tells the first cause. If this rank blames a rank without knowing its
// number, the first cause is a rank whose note blames no other rank, else a rank that has written no note.
//
// The job's store is in rank 0's process. After rank 0 has read the notes, it stores the first cause in the
// job's store, where ranks that fail later find it. If rank 0 left without a note, or did not answer, before
// a rank wrote its note, that rank reports rank 0 as the first cause. Ranks that have not joined a job
// (World::job is null) have no store, so each reports only the failure that it has seen itself.
//
// Thread-safe. A process group made of several groups (backend hierarchical) shares one FirstCause object
// with them.
class FirstCause {
 public:
  // A rank that this rank blames may itself wait for another rank, and writes its note only when that wait
  // fails. `patience` is the longest time that such a wait takes.
  explicit FirstCause(const World& world, std::chrono::milliseconds patience = {});
  // Writes the note about this rank's failure into the job's store. Takes at most six seconds: if the store
  // does not answer by then, the note may be missing. Only the first call has an effect.
  void Write(const std::exception& failure);
  // Waits for the notes of other ranks, and returns the first cause. Waits at most one second, plus
  // `patience` unless this rank's own failure was that another rank closed its connection (PeerClosed). Call
  // Read after Write.
  std::string Read();

 private:
  struct Note {
    int suspect;
    std::string cause;
  };
  // Reads the note of the rank that this rank blames, then the note of the rank that this note blames, and so
  // on. Copies the cause from the last note that it reads into first_. Returns false if the notes lead back
  // to a rank whose note has been read, so that ranks blame each other in a circle. Throws JobFailed if a
  // rank has made the job fail (Store::Fail); std::runtime_error if rank 0 cannot be reached.
  bool Follow(Deadline deadline);
  // Finds the first cause if this rank's note blames an unknown rank. Reads the notes of the other ranks, and
  // copies the cause from the first note that blames no rank into first_. If there is no such note, first_
  // blames the lowest-numbered rank that has written no note. Throws like Follow.
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
