#ifndef GRADSYNC_TOOLS_CHARTS_SVG_H_
#define GRADSYNC_TOOLS_CHARTS_SVG_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The few elements of SVG that charts are made of. Colours come from the page: an element has classes, and
// the page's style sheet says what these look like, in each theme.
namespace gradsync::tools {

// Text is set in this size; a character is at most this wide on average, in the widest usual font.
inline constexpr double kFontSize = 12;
inline constexpr double kCharacterWidth = 7.3;

double TextWidth(std::string_view text);

class Svg {
 public:
  // `label`: what a screen reader says in place of the picture. Escapes it, as all text given below.
  Svg(double width, double height, std::string label);

  // `tip`, if not empty, is shown where the pointer rests. `classes` are not escaped.
  void Rect(std::string_view classes, double x, double y, double width, double height,
            std::string_view tip = {});
  void Line(std::string_view classes, double x1, double y1, double x2, double y2, std::string_view tip = {});
  using Points = std::vector<std::pair<double, double>>;
  void Polyline(std::string_view classes, const Points& points);
  void Polygon(std::string_view classes, const Points& points);
  // Shape number `shape` of four (circle, square, triangle, diamond), which differ without colour too.
  void Marker(std::string_view classes, size_t shape, double x, double y, std::string_view tip);
  // `anchor`: "start", "middle" or "end" of the text is at x.
  void Text(std::string_view classes, double x, double y, std::string_view anchor, std::string_view text,
            std::string_view tip = {});

  // The elements so far.
  const std::string& body() const { return body_; }
  // The picture, as an element to be put into a page.
  std::string Finish() const;

 private:
  void Add(std::string_view tag, std::string_view attributes, std::string_view content, std::string_view tip);

  double width_;
  double height_;
  std::string label_;
  std::string body_;
};

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_CHARTS_SVG_H_
