#ifndef GRADSYNC_TOOLS_REPORTS_TEST_XML_H_
#define GRADSYNC_TOOLS_REPORTS_TEST_XML_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

// Reads pages and pictures back, in tests.
namespace gradsync::tools {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;     // its own and of all in it, but not of a <title>
  std::string tip;      // text of its own <title>
  std::string section;  // the id of the nearest <section> or <figure> around it

  // Empty if it has none.
  std::string Attribute(const std::string& attribute) const;
  double Number(const std::string& attribute) const;
  bool HasClass(std::string_view name) const;
};

// All elements in the order in which they begin. Throws std::runtime_error with line and reason if `xml` is
// not well-formed, or if two elements have one id.
std::vector<XmlElement> ParseXml(const std::string& xml);

// Those with a class.
std::vector<XmlElement> WithClass(const std::vector<XmlElement>& elements, std::string_view name);

}  // namespace gradsync::tools

#endif  // GRADSYNC_TOOLS_REPORTS_TEST_XML_H_
