#ifndef GRADSYNC_TOOLS_TEXT_POOL_H_
#define GRADSYNC_TOOLS_TEXT_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace gradsync::tools {

// Texts by number, equal ones once, one behind the other in memory: a table of a million rows has a million
// run names.
class TextPool {
 public:
  TextPool();

  // The number of an equal text, or the next one.
  uint32_t Intern(std::string_view text);
  // Valid until the next Intern.
  std::string_view text(uint32_t number) const { return storage_->Text(number); }
  size_t size() const { return storage_->ends.size(); }

 private:
  struct Storage {
    std::string characters;
    std::vector<size_t> ends;
    std::string_view Text(uint32_t number) const;
  };
  // The set holds numbers and compares texts.
  struct Hash {
    using is_transparent = void;
    const Storage* storage;
    size_t operator()(uint32_t number) const { return (*this)(storage->Text(number)); }
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  struct Equal {
    using is_transparent = void;
    const Storage* storage;
    bool operator()(uint32_t a, uint32_t b) const { return a == b; }
    bool operator()(std::string_view a, uint32_t b) const { return a == storage->Text(b); }
    bool operator()(uint32_t a, std::string_view b) const { return storage->Text(a) == b; }
  };

  std::unique_ptr<Storage> storage_;  // does not move with the pool: the set points to it
  std::unordered_set<uint32_t, Hash, Equal> numbers_;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TEXT_POOL_H_
