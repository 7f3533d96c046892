#ifndef GRADSYNC_TOOLS_RENDER_TEXT_H_
#define GRADSYNC_TOOLS_RENDER_TEXT_H_

#include <string>
#include <string_view>

// Text for people, in UTF-8: files that are not are refused where they are read.
namespace gradsync::tools {

// How many characters people see; a code point counts as one.
size_t NumCharacters(std::string_view text);

// `text`, or its beginning and an ellipsis if it has more than `most` characters.
std::string Shortened(std::string_view text, size_t most);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RENDER_TEXT_H_
