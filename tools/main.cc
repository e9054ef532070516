#include "tools/command_line.h"

int main(int argc, char** argv) {
  return zerodiff::tools::run_command_line(argc, argv);
}
