#ifndef GRADSYNC_TOOLS_RENDER_TEXT_H_
#define GRADSYNC_TOOLS_RENDER_TEXT_H_

#include <string>
#include <string_view>

#include "tools/tables/words.h"

// Text for people, and for HTML that is well-formed XML too.
namespace gradsync::tools {

// As character data, or between double or single quotes. Control characters, which XML cannot hold, become
// U+FFFD, the replacement character. `text` is UTF-8: files that are not are refused where they are read.
std::string EscapeXml(std::string_view text);

// Escaped, with what stands between backquotes in <code>. A backquote without its partner stays.
std::string WithCode(std::string_view text);

// A number for people: `digits` significant digits, a true minus sign, "n/a" for none.
std::string Readable(double value, int digits);

// How many characters people see; a code point counts as one.
size_t NumCharacters(std::string_view text);

// `text`, or its beginning and an ellipsis if it has more than `most` characters.
std::string Shortened(std::string_view text, size_t most);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_RENDER_TEXT_H_
