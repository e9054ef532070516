// Ends the process with one line, before any other code of the program runs, on a processor that
// lacks the instruction set the program was built for (ZERODIFF_MARCH).
//
// This file alone is compiled for plain x86-64 and uses nothing but system calls and the compiler's
// processor query: anything else might already be an instruction that the processor does not have.
#include <unistd.h>

namespace {

#if defined(__x86_64__)

constexpr char kLevel[] = ZERODIFF_MARCH;
constexpr int kInfrastructure = 3;  // ExitCode::kInfrastructure, without including anything

constexpr bool built_for(const char* level) {
  const char* have = kLevel;
  while (*have != '\0' && *have == *level) {
    ++have;
    ++level;
  }
  return *have == *level;
}

#if defined(__clang__) && __clang_major__ < 18  // knows features, not levels
bool has_v2() {
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
}
bool has_v3() {
  return has_v2() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
}
bool has_v4() {
  return has_v3() && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#else
bool has_v2() {
  return __builtin_cpu_supports("x86-64-v2") != 0;
}
bool has_v3() {
  return __builtin_cpu_supports("x86-64-v3") != 0;
}
bool has_v4() {
  return __builtin_cpu_supports("x86-64-v4") != 0;
}
#endif

// Levels other than v2, v3 and v4 (such as a processor's name) are not checked.
bool processor_suffices() {
  __builtin_cpu_init();
  if constexpr (built_for("x86-64-v2")) return has_v2();
  if constexpr (built_for("x86-64-v3")) return has_v3();
  if constexpr (built_for("x86-64-v4")) return has_v4();
  return true;
}

// 101 is the first priority a program may use: every other initialiser comes later.
__attribute__((constructor(101))) void check_processor() {
  if (processor_suffices()) return;
  constexpr char kMessage[] = "zerodiff: this build needs a processor with " ZERODIFF_MARCH
                              "; rebuild with -DZERODIFF_MARCH=x86-64\n";
  if (write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1) < 0) _exit(kInfrastructure);
  _exit(kInfrastructure);
}

#endif

}  // namespace
