#include <iostream>

#include "tools/reports/report.h"

int main(int argc, char** argv) { return gradsync::tools::RunReport(argc, argv, std::cout, std::cerr); }
