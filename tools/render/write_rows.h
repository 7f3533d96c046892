#ifndef GRADSYNC_TOOLS_RENDER_WRITE_ROWS_H_
#define GRADSYNC_TOOLS_RENDER_WRITE_ROWS_H_

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>

namespace gradsync::tools {

// Appends the text of the rows from `first` up to, not including, `last`. Called in several threads at once.
using RowsText = std::function<void(size_t first, size_t last, std::string* text)>;

// Writes the text of all rows, in their order. Of many rows, blocks are made into text by as many threads as
// there are CPUs; in memory are a few blocks at a time. Throws what `append` throws.
void WriteRows(size_t num_rows, const RowsText& append, std::ostream& out);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RENDER_WRITE_ROWS_H_
