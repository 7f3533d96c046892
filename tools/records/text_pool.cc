#include "tools/records/text_pool.h"

#include <algorithm>
#include <functional>

namespace gradsync::tools {

std::string_view TextPool::text(uint32_t number) const {
  const size_t begin = number == 0 ? 0 : ends_[number - 1];
  return std::string_view(characters_).substr(begin, ends_[number] - begin);
}

size_t TextPool::SlotOf(std::string_view wanted) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>()(wanted) & mask;
  while (slots_[slot] != 0 && text(slots_[slot] - 1) != wanted) slot = (slot + 1) & mask;
  return slot;
}

void TextPool::Grow() {
  slots_.assign(std::max(size_t{8}, 2 * slots_.size()), 0);
  for (uint32_t number = 0; number < ends_.size(); ++number) slots_[SlotOf(text(number))] = number + 1;
}

uint32_t TextPool::Intern(std::string_view text) {
  if (2 * ends_.size() >= slots_.size()) Grow();
  const size_t slot = SlotOf(text);
  if (slots_[slot] == 0) {
    characters_ += text;
    ends_.push_back(characters_.size());
    slots_[slot] = static_cast<uint32_t>(ends_.size());
  }
  return slots_[slot] - 1;
}

}  // namespace gradsync::tools
