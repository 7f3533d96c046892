#include "tools/records/in_order.h"

#include <algorithm>
#include <deque>
#include <future>
#include <thread>

namespace gradsync::tools {

size_t NumSlots() {
  constexpr size_t kMostThreads = 8;
  return std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostThreads) + 1;
}

void MakeInOrder(size_t num_pieces, const std::function<void(size_t piece, size_t slot)>& make,
                 const std::function<void(size_t piece, size_t slot)>& take) {
  const size_t num_slots = NumSlots();
  const std::launch policy = num_pieces > 1 ? std::launch::async : std::launch::deferred;
  std::deque<std::future<void>> running;  // whose destructors wait
  size_t next = 0;
  const auto start = [&] {
    running.push_back(std::async(policy, make, next, next % num_slots));
    ++next;
  };
  while (next < std::min(num_pieces, num_slots)) start();
  for (size_t piece = 0; piece < num_pieces; ++piece) {
    running.front().get();
    running.pop_front();
    take(piece, piece % num_slots);
    if (next < num_pieces) start();
  }
}

}  // namespace gradsync::tools
