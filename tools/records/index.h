#ifndef GRADSYNC_TOOLS_RECORDS_INDEX_H_
#define GRADSYNC_TOOLS_RECORDS_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bench/records/record.h"
#include "tools/records/line_reader.h"
#include "tools/records/problems.h"
#include "tools/records/scanner.h"

namespace gradsync::tools {

// Where the records lie and how they belong together, so that a million of them can be worked through a few
// at a time. Lines are read twice: once to index them (48 bytes each), once when their turn comes.
//
// The ranks of one measurement are the records with the same experiment, run_id, world_size and configuration
// (placement aside, which is each rank's own). A cell holds the measurements that are compared with each
// other: one run, model, backend, device, dtype, batch, sequence and so on, by different strategies.
class RecordIndex {
 public:
  // Where one record is.
  struct Entry {
    uint32_t run = 0;
    uint32_t cell = 0;
    uint32_t measurement = 0;
    uint32_t rank = 0;
    uint32_t experiment = 0;  // index into experiments()
    uint32_t strategy = 0;    // index into strategies()
    uint32_t file = 0;
    uint32_t line = 0;
    uint32_t length = 0;  // bytes
    uint64_t offset = 0;
  };

  // Lines that are no records are reported to `problems`, which must outlive the index.
  explicit RecordIndex(Problems* problems) : problems_(problems) {}

  // Adds a file, or every *.jsonl in a directory, in the order of their names; what lies below it, such as
  // traced runs, is not taken. A file that was given before is skipped. Throws InvalidInput if there is
  // nothing at `path`; what cannot be read is a problem.
  void Add(const std::string& path);

  // Indexes the files, in several threads, and orders the entries. Call once, after the last Add. A second
  // record of a rank is a problem, and left out.
  void Finish();

  // The records: those of a cell are neighbours, in it those of a measurement, in the order of ranks. Cells,
  // and measurements in a cell, are in the order in which they were first met.
  std::span<const Entry> entries() const { return entries_; }
  const std::vector<std::string>& experiments() const { return experiments_; }
  const std::vector<std::string>& strategies() const { return strategies_; }
  const std::vector<std::string>& files() const { return files_; }

  // Reports that a record cannot be used.
  void Reject(const Entry& entry, std::string reason);

 private:
  // A part of a file, which one thread scans.
  struct Piece {
    uint32_t file = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  std::vector<Piece> Pieces();
  void ScanFiles();
  // For each record the number of the first record that has the same hash.
  std::vector<uint32_t> FirstWithSame(uint64_t RecordKeys::*hash) const;
  void NumberEntries();

  Problems* problems_;
  std::vector<std::string> files_;
  std::set<std::string> seen_files_;
  std::vector<Entry> entries_;
  std::vector<RecordKeys> keys_;  // of entries_, while indexing
  std::vector<std::string> experiments_;
  std::vector<std::string> strategies_;
};

// Reads records of a finished index. Not thread safe, but several may read at once.
class RecordReader {
 public:
  explicit RecordReader(const RecordIndex& index) : index_(index) {}

  // Reads a record into one whose memory is used again. Returns the reason if it is malformed behind its
  // head, or cannot be read; an empty text if it is a record.
  std::string Load(const RecordIndex::Entry& entry, bench::Record* record);

 private:
  // A file that is being read, and what was read of it ahead.
  struct OpenFile {
    std::unique_ptr<InputFile> input;
    std::vector<char> ahead;
    uint64_t offset = 0;  // of ahead
    uint64_t next = 0;    // where the line behind the last one begins
  };

  OpenFile& Open(uint32_t file);
  // The record's line; valid until the next call. Throws std::runtime_error.
  std::string_view ReadLine(const RecordIndex::Entry& entry);

  const RecordIndex& index_;
  std::unordered_map<uint32_t, OpenFile> open_files_;
  bench::RecordParser parser_;
};

// The part of `entries` at its front for which `same` holds with the first.
template <class Same>
std::span<const RecordIndex::Entry> TakeGroup(std::span<const RecordIndex::Entry>* entries, Same&& same) {
  size_t n = 0;
  while (n < entries->size() && same(entries->front(), (*entries)[n])) ++n;
  const auto group = entries->first(n);
  *entries = entries->subspan(n);
  return group;
}

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RECORDS_INDEX_H_
