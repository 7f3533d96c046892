#include <iostream>

#include "tools/import/cli.h"

int main(int argc, char** argv) {
  return gradsync::tools::RunImportPublished(argc, argv, std::cout, std::cerr);
}
