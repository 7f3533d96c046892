#ifndef GRADSYNC_TOOLS_TABLES_WORDS_H_
#define GRADSYNC_TOOLS_TABLES_WORDS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace gradsync::tools {

// "a", "a and b", "a, b and c".
std::string Listed(const std::vector<std::string>& items);

// `count` as a word up to twelve, as digits above.
std::string CountWord(size_t count);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TABLES_WORDS_H_
