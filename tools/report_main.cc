#include <iostream>

#include "tools/report_cli.h"

int main(int argc, char** argv) { return gradsync::tools::RunReport(argc, argv, std::cout, std::cerr); }
