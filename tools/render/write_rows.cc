#include "tools/render/write_rows.h"

#include <algorithm>
#include <vector>

#include "tools/records/in_order.h"

namespace gradsync::tools {

void WriteRows(size_t num_rows, const RowsText& append, std::ostream& out) {
  constexpr size_t kRowsOfBlock = 2048;
  std::vector<std::string> texts(NumSlots());
  MakeInOrder((num_rows + kRowsOfBlock - 1) / kRowsOfBlock,
              [&](size_t block, size_t slot) {
                const size_t first = block * kRowsOfBlock;
                texts[slot].clear();
                append(first, std::min(first + kRowsOfBlock, num_rows), &texts[slot]);
              },
              [&](size_t, size_t slot) { out << texts[slot]; });
}

}  // namespace gradsync::tools
