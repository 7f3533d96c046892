#include "tools/reports/test_xml.h"

#include <expat.h>

#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>

namespace gradsync::tools {
namespace {

struct Reader {
  std::vector<XmlElement> elements;
  std::vector<size_t> open;  // indices into elements
  std::set<std::string> ids;
  std::string repeated_id;
};

void Begin(void* data, const XML_Char* name, const XML_Char** attributes) {
  Reader& reader = *static_cast<Reader*>(data);
  XmlElement element;
  element.name = name;
  for (; *attributes != nullptr; attributes += 2) element.attributes[attributes[0]] = attributes[1];
  const std::string id = element.Attribute("id");
  if (!id.empty() && !reader.ids.insert(id).second) reader.repeated_id = id;
  if (element.name == "section" || element.name == "figure") {
    element.section = id;
  } else if (!reader.open.empty()) {
    element.section = reader.elements[reader.open.back()].section;
  }
  reader.open.push_back(reader.elements.size());
  reader.elements.push_back(std::move(element));
}

void End(void* data, const XML_Char*) { static_cast<Reader*>(data)->open.pop_back(); }

void Characters(void* data, const XML_Char* text, int length) {
  Reader& reader = *static_cast<Reader*>(data);
  const std::string_view characters(text, static_cast<size_t>(length));
  std::vector<size_t>& open = reader.open;
  if (open.size() > 1 && reader.elements[open.back()].name == "title") {
    reader.elements[open.back()].text += characters;
    reader.elements[open[open.size() - 2]].tip += characters;
    return;
  }
  for (const size_t element : open) reader.elements[element].text += characters;
}

}  // namespace

std::string XmlElement::Attribute(const std::string& attribute) const {
  const auto found = attributes.find(attribute);
  return found == attributes.end() ? "" : found->second;
}

double XmlElement::Number(const std::string& attribute) const { return std::stod(Attribute(attribute)); }

bool XmlElement::HasClass(std::string_view wanted) const {
  std::istringstream classes(Attribute("class"));
  for (std::string word; classes >> word;) {
    if (word == wanted) return true;
  }
  return false;
}

std::vector<XmlElement> ParseXml(const std::string& xml) {
  const std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser(XML_ParserCreate("UTF-8"),
                                                                            &XML_ParserFree);
  Reader reader;
  XML_SetUserData(parser.get(), &reader);
  XML_SetElementHandler(parser.get(), Begin, End);
  XML_SetCharacterDataHandler(parser.get(), Characters);
  if (XML_Parse(parser.get(), xml.data(), static_cast<int>(xml.size()), XML_TRUE) != XML_STATUS_OK) {
    // Not the line: Debian 13's expat wants it asked for by a function that Debian 12's lacks.
    throw std::runtime_error(XML_ErrorString(XML_GetErrorCode(parser.get())));
  }
  if (!reader.repeated_id.empty()) throw std::runtime_error("two elements with id " + reader.repeated_id);
  return reader.elements;
}

std::vector<XmlElement> WithClass(const std::vector<XmlElement>& elements, std::string_view name) {
  std::vector<XmlElement> found;
  for (const XmlElement& element : elements) {
    if (element.HasClass(name)) found.push_back(element);
  }
  return found;
}

}  // namespace gradsync::tools
