#ifndef GRADSYNC_TOOLS_TIMELINES_CANVAS_H_
#define GRADSYNC_TOOLS_TIMELINES_CANVAS_H_

#include <cstdio>
#include <string>
#include <string_view>

namespace gradsync::tools {

// printf into a string.
template <class... Args>
std::string Format(const char* format, Args... args) {
  const int length = std::snprintf(nullptr, 0, format, args...);
  std::string text(static_cast<size_t>(length), '\0');
  std::snprintf(text.data(), text.size() + 1, format, args...);
  return text;
}

// Shapes of an SVG picture, in its own units. What they look like is said by classes, whose rules are the
// picture's style sheet: so one picture serves on light and on dark paper.
class SvgCanvas {
 public:
  // `tip` is what a browser shows under the pointer; empty for none.
  void Box(double x, double y, double width, double height, std::string_view css_class,
           std::string_view tip = "");
  void Line(double x1, double y1, double x2, double y2, std::string_view css_class);
  // `path`: SVG's path language.
  void Path(std::string_view path, std::string_view css_class, std::string_view tip = "");
  void Text(double x, double y, std::string_view css_class, std::string_view text);

  // The whole picture. `css_class` is that of the root and must precede every rule's selector in
  // `style_sheet`, so that nothing leaks into a page that the picture is put in. `label`: what it shows, for
  // who cannot see it.
  std::string Svg(double width, double height, std::string_view css_class, std::string_view style_sheet,
                  std::string_view label) const;

 private:
  std::string body_;
};

// How wide `text` is in a usual sans-serif font, rather too wide than too narrow.
double TextWidth(std::string_view text, double font_size);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_TIMELINES_CANVAS_H_
