#ifndef GRADSYNC_TOOLS_RECORDS_TEXT_POOL_H_
#define GRADSYNC_TOOLS_RECORDS_TEXT_POOL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gradsync::tools {

// Texts by number, equal ones once, one behind the other in memory: a table of a million rows has a million
// run names, and a standard map would take a hundred bytes for each.
class TextPool {
 public:
  // The number of an equal text, or the next one.
  uint32_t Intern(std::string_view text);
  // Valid until the next Intern.
  std::string_view text(uint32_t number) const;
  size_t size() const { return ends_.size(); }

 private:
  // The slot that holds the text's number, or the empty one where it belongs. Some slot must be empty.
  size_t SlotOf(std::string_view text) const;
  void Grow();

  std::string characters_;
  std::vector<size_t> ends_;     // in characters_
  std::vector<uint32_t> slots_;  // number + 1, or 0: a hash table with linear probing, at most half full
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RECORDS_TEXT_POOL_H_
