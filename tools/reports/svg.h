#ifndef GRADSYNC_TOOLS_REPORTS_SVG_H_
#define GRADSYNC_TOOLS_REPORTS_SVG_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The few elements of SVG that charts and timelines are made of. An element has classes; what these look
// like, in each theme, the style sheet of the page or of the picture says.
namespace gradsync::tools {

// The size in which text is set where nothing else is said.
inline constexpr double kFontSize = 12;

// How wide a text is at most, in the widest usual sans-serif font.
double TextWidth(std::string_view text, double font_size = kFontSize);

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
  void Polygon(std::string_view classes, const Points& points, std::string_view tip = {});
  // Shape number `shape` of four (circle, square, triangle, diamond), which differ without colour too.
  void Marker(std::string_view classes, size_t shape, double x, double y, std::string_view tip);
  // `anchor`: "start", "middle" or "end" of the text is at x.
  void Text(std::string_view classes, double x, double y, std::string_view anchor, std::string_view text,
            std::string_view tip = {});

  // Lines of at most `width`, broken between words. Returns where the next line would begin.
  double Paragraph(std::string_view classes, double x, double y, double width, double font_size,
                   std::string_view text);

  // All elements of another picture, moved.
  void Place(double x, double y, const Svg& picture);

  double width() const { return width_; }
  double height() const { return height_; }
  // The elements so far.
  const std::string& body() const { return body_; }
  // The picture, as an element to be put into a page that has the style sheet.
  std::string Finish() const;
  // The picture as a document of its own. `classes` are those of the root. Where the document may stand in a
  // page too, they must precede every rule's selector in `style_sheet`, so that nothing leaks into the page.
  // It is shown `scale` times as large where there is room.
  std::string Document(std::string_view classes, std::string_view style_sheet, double scale = 1) const;

 private:
  std::string Root(std::string_view classes, std::string_view attributes, std::string_view style) const;
  void Add(std::string_view tag, std::string_view attributes, std::string_view content, std::string_view tip);

  double width_;
  double height_;
  std::string label_;
  std::string body_;
};

// What a mark or colour means.
struct KeyEntry {
  Svg mark;  // kMarkWidth x kMarkHeight
  std::string text;
};
inline constexpr double kMarkWidth = 18, kMarkHeight = 14;
// An entry whose mark is a box.
KeyEntry BoxKey(std::string_view classes, std::string text);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_SVG_H_
