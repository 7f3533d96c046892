#include "tools/render/text.h"

#include <algorithm>

namespace gradsync::tools {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80; }

}  // namespace

size_t NumCharacters(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); }));
}

std::string Shortened(std::string_view text, size_t most) {
  if (NumCharacters(text) <= most) return std::string(text);
  size_t kept = 0;
  for (size_t characters = 0; kept < text.size(); ++kept) {
    if (!IsContinuation(text[kept]) && ++characters == most) break;
  }
  return std::string(text.substr(0, kept)) + "…";
}

}  // namespace gradsync::tools
