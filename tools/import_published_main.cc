#include <iostream>

#include "tools/import_cli.h"

int main(int argc, char** argv) {
  return gradsync::tools::RunImportPublished(argc, argv, std::cout, std::cerr);
}
