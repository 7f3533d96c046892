#ifndef GRADSYNC_TOOLS_RECORDS_SCANNER_H_
#define GRADSYNC_TOOLS_RECORDS_SCANNER_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/records/record.h"
#include "tools/records/line_reader.h"
#include "tools/records/text_pool.h"

namespace gradsync::tools {

// Hashes of what records have in common: those of a run, those that are compared with each other, those of
// one measurement.
struct RecordKeys {
  uint64_t run = 0;
  uint64_t cell = 0;
  uint64_t measurement = 0;
};

// Finds the records in a piece of a file. Memory is used again from one piece to the next. Not thread safe.
class RecordScanner {
 public:
  struct Found {
    RecordKeys keys;
    uint64_t offset = 0;
    uint32_t line = 0;  // from 1, in the piece
    uint32_t length = 0;
    uint32_t rank = 0;
    uint32_t experiment = 0;  // in experiments()
    uint32_t strategy = 0;    // in strategies()
  };

  // Takes the lines that begin in [begin, end). Replaces what was found before, but for the texts.
  void Scan(const std::string& path, uint64_t begin, uint64_t end);

  const std::vector<Found>& found() const { return found_; }
  // Lines that are no records, with the reasons.
  const std::vector<std::pair<int64_t, std::string>>& bad_lines() const { return bad_lines_; }
  int64_t num_lines() const { return num_lines_; }
  // Why the piece could not be read to its end; empty if it was.
  const std::string& failure() const { return failure_; }

  const TextPool& experiments() const { return experiments_; }
  const TextPool& strategies() const { return strategies_; }

 private:
  // What a configuration adds to the keys of its records.
  struct ConfigKeys {
    bench::Fields config;  // keeps its shared_id
    uint64_t cell = 0;
    uint64_t measurement = 0;
  };

  static ConfigKeys KeysOf(const bench::Fields& config);
  RecordKeys KeysOf(const bench::Record& head);
  void TakeLine(const LineReader& reader);

  std::vector<Found> found_;
  std::vector<std::pair<int64_t, std::string>> bad_lines_;
  int64_t num_lines_ = 0;
  std::string failure_;
  TextPool experiments_;
  TextPool strategies_;
  std::unordered_map<const void*, ConfigKeys> config_keys_;  // by shared_id, of the last ones
  bench::Record head_;
  bench::RecordParser parser_;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RECORDS_SCANNER_H_
