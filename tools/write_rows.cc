#include "tools/write_rows.h"

#include <algorithm>
#include <deque>
#include <future>
#include <thread>

namespace gradsync::tools {
namespace {

constexpr size_t kRowsOfBlock = 2048;
constexpr size_t kMaxThreads = 8;

}  // namespace

void WriteRows(size_t num_rows, const RowsText& append, std::ostream& out) {
  const auto text_from = [&](size_t first) {
    std::string text;
    append(first, std::min(first + kRowsOfBlock, num_rows), &text);
    return text;
  };
  const size_t num_threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMaxThreads);
  std::deque<std::future<std::string>> blocks;
  size_t next = 0;
  while (next < num_rows || !blocks.empty()) {
    while (next < num_rows && blocks.size() < num_threads) {
      const auto policy = num_rows > kRowsOfBlock ? std::launch::async : std::launch::deferred;
      blocks.push_back(std::async(policy, text_from, next));
      next += kRowsOfBlock;
    }
    out << blocks.front().get();
    blocks.pop_front();
  }
}

}  // namespace gradsync::tools
