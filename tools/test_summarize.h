#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "tools/summarize_cli.h"

// RunWith() runs the program //tools:summarize inside the process of a test, and returns its exit status and
// output.
namespace gradsync::tools {

struct Outcome {
  int status = 0;
  std::string out;
  std::string err;
};

inline Outcome RunWith(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {"summarize"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out;
  std::ostringstream err;
  const int status = RunSummarize(static_cast<int>(argv.size()), argv.data(), out, err);
  return {status, out.str(), err.str()};
}

}  // namespace gradsync::tools
