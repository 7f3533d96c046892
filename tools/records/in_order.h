#ifndef GRADSYNC_TOOLS_RECORDS_IN_ORDER_H_
#define GRADSYNC_TOOLS_RECORDS_IN_ORDER_H_

#include <cstddef>
#include <functional>

namespace gradsync::tools {

// How many pieces of a job are in memory at once: one for each CPU, at most 8 of them, and one that is being
// taken.
size_t NumSlots();

// Makes the pieces 0 to `num_pieces` - 1 in several threads, and takes each in the caller's, in their order,
// while the next ones are made. `make(piece, slot)` may use what belongs to `slot`, a number below
// NumSlots(), alone until `take(piece, slot)` has returned, so that a slot's memory is used again. A single
// piece is made in the caller's thread. Throws what they throw, once nothing runs any more.
void MakeInOrder(size_t num_pieces, const std::function<void(size_t piece, size_t slot)>& make,
                 const std::function<void(size_t piece, size_t slot)>& take);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RECORDS_IN_ORDER_H_
