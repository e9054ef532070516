// A program that says that it got as far as main().
#include <cstdio>

int main() {
  return std::puts("main") < 0 ? 1 : 0;
}
