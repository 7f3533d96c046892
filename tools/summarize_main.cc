#include <iostream>

#include "model/base/standard_streams.h"
#include "tools/summarize_cli.h"

int main(int argc, char** argv) {
  gradsync::KeepStandardStreams();
  std::ios::sync_with_stdio(false);
  return gradsync::tools::RunSummarize(argc, argv, std::cout, std::cerr);
}
