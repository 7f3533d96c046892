#ifndef GRADSYNC_TOOLS_IMPORT_PUBLISHED_H_
#define GRADSYNC_TOOLS_IMPORT_PUBLISHED_H_

#include <string>
#include <string_view>
#include <vector>

#include "bench/records/record.h"
#include "tools/import/protocol.h"

namespace gradsync::tools {

struct Published {
  std::vector<bench::Record> records;  // without samples, in the order of the text
  // Columns that are not what their heading says, and lines that look like figures but cannot be read, with
  // their numbers; a line each.
  std::vector<std::string> remarks;
};

// The figures in a text that people wrote around the output of a benchmark. They are known by the shape of
// the blocks that hold them, wherever these stand:
//
//   all-reduce  a row of a Markdown table with the columns backend, data_size (MB), time_taken, std_time
//   strategies  a row of a Markdown table with the columns model_size, backend, time_per_step, std_time_step,
//               time_per_sync, std_time_sync, fraction_sync, and perhaps strategy
//   a grid      a line that names local_bs and seq_len, and printed tensors behind it; its strategy is the
//   first
//               of overlap, flat and naive that the text mentions, unless the options name one
//   bucket sizes  a row under a heading that names a phase in brackets and ten columns: five statistics, each
//               with its difference in percent to the first row
//
// How they were measured is taken from the protocol of each kind. Throws InvalidInput if there are no
// figures, or if no strategy is known.
Published ReadPublished(std::string_view text, const ImportOptions& options);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_IMPORT_PUBLISHED_H_
