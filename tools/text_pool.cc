#include "tools/text_pool.h"

namespace gradsync::tools {

std::string_view TextPool::Storage::Text(uint32_t number) const {
  const size_t begin = number == 0 ? 0 : ends[number - 1];
  return std::string_view(characters).substr(begin, ends[number] - begin);
}

TextPool::TextPool()
    : storage_(std::make_unique<Storage>()), numbers_(8, Hash{storage_.get()}, Equal{storage_.get()}) {}

uint32_t TextPool::Intern(std::string_view text) {
  const auto found = numbers_.find(text);
  if (found != numbers_.end()) return *found;
  const uint32_t number = static_cast<uint32_t>(storage_->ends.size());
  storage_->characters += text;
  storage_->ends.push_back(storage_->characters.size());
  numbers_.insert(number);
  return number;
}

}  // namespace gradsync::tools
