// Text for people: numbers, wrapping, tables, quoting.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <array>
#include <limits>

#include "tools/path_selection.h"
#include "tools/progress.h"
#include "tools/rerun.h"
#include "tools/terminal.h"
#include "tools/text_table.h"

namespace zerodiff::tools {
namespace {

const Painter kPlain(false);

TEST(Numbers, AreGroupedByThree) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(grouped(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
  EXPECT_EQ(grouped_unsigned(std::numeric_limits<std::uint64_t>::max()),
            "18,446,744,073,709,551,615");
  EXPECT_EQ(counted(1, "row"), "1 row");
  EXPECT_EQ(counted(2000, "row"), "2,000 rows");
}

TEST(Numbers, AreExactWhereThatIsShort) {
  EXPECT_EQ(readable_number(0), "0");
  EXPECT_EQ(readable_number(0.001953125), "0.001953125");
  EXPECT_EQ(readable_number(0.341796875), "0.341796875");
  EXPECT_EQ(readable_number(1.0 / 3), "0.333333");
  EXPECT_EQ(readable_number(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(readable_number(-std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(Numbers, BytesHaveBinaryUnits) {
  EXPECT_EQ(readable_bytes(0), "0 B");
  EXPECT_EQ(readable_bytes(1023), "1023 B");
  EXPECT_EQ(readable_bytes(1024), "1.0 KiB");
  EXPECT_EQ(readable_bytes(3 << 20), "3.0 MiB");
  EXPECT_EQ(readable_bytes(std::uint64_t{5} << 50), "5120.0 TiB");
}

TEST(Printable, ReplacesControlCharactersOnly) {
  EXPECT_EQ(printable("plain, ✓ and ü"), "plain, ✓ and ü");
  EXPECT_EQ(printable("a\x1b[31mb\n\x7f"), "a?[31mb??");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "?31m");
}

TEST(DisplayWidth, CountsCodePointsWithoutColour) {
  EXPECT_EQ(display_width("✓ k"), 3U);
  EXPECT_EQ(display_width(Painter(true)(Style::red, "✗")), 1U);
  EXPECT_EQ(display_width(""), 0U);
}

TEST(Wrapped, BreaksBetweenWordsAndIndents) {
  const std::string word(60, 'x');
  EXPECT_EQ(wrapped("ab  ", "one two"), "ab  one two\n");
  EXPECT_EQ(wrapped("ab  ", word + " " + word), "ab  " + word + "\n    " + word + "\n");
  EXPECT_EQ(wrapped("ab  ", ""), "ab\n");
  const std::string long_word(150, 'y');
  EXPECT_EQ(wrapped("ab  ", "z " + long_word), "ab  z\n    " + long_word + "\n");
}

TEST(Wrapped, FillsALineToTheLastColumn) {
  const std::string word(kReportColumns - 4, 'x');
  EXPECT_EQ(wrapped("a ", "b " + word), "a b " + word + "\n");
  EXPECT_EQ(wrapped("a ", "b " + word + "x"), "a b\n  " + word + "x\n");
}

TEST(Wrapped, KeepsGivenWordsTogether) {
  const std::vector<std::string> words{std::string(95, 'x'), "dim 17"};
  EXPECT_EQ(wrapped_words("  ", words), "  " + words[0] + "\n  dim 17\n");
}

TEST(TextTable, AlignsColumns) {
  TextTable table({{"name"}, {"count", Align::right}}, 1);
  table.add_row({{"q"}, {"1,024"}});
  table.add_lines("   below\n");
  table.add_row({{"k_cache"}, {"7"}});
  EXPECT_EQ(table.render(kPlain),
            " name     count\n"
            " q        1,024\n"
            "   below\n"
            " k_cache      7\n");
}

TEST(TextTable, ShrinksOnlyWhatMayShrink) {
  TextTable table({{"output"}, {"path", Align::left, true}, {"n", Align::right}}, 0);
  table.add_row({{std::string(50, 'o')}, {"aiter_" + std::string(60, 'x') + "_end"}, {"12"}});
  const std::string text = table.render(kPlain);
  const std::size_t last_line = text.find('\n') + 1;
  EXPECT_EQ(display_width(text.substr(last_line, text.size() - last_line - 1)), kReportColumns);
  EXPECT_NE(text.find("aiter_"), std::string::npos);
  EXPECT_NE(text.find("…"), std::string::npos);
  EXPECT_NE(text.find("_end"), std::string::npos);
  EXPECT_NE(text.find(std::string(50, 'o')), std::string::npos);
}

TEST(ShellQuoted, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(shell_quoted("fixtures/a-b_c.h5:fused"), "fixtures/a-b_c.h5:fused");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("a b"), "'a b'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(rerun_line("verify", "", "-x.h5"), "zerodiff verify -- -x.h5");
}

TEST(PathSelection, RepeatsItsOptions) {
  const auto options = [](const std::vector<std::string>& paths, bool strict) {
    return parse_path_selection(paths, strict).as_options();
  };
  EXPECT_EQ(options({}, false), "");
  EXPECT_EQ(options({}, true), "--strict");
  EXPECT_EQ(options({"b,a", "b"}, false), "--paths b,a");
  EXPECT_EQ(options({"a,all"}, true), "--paths all,a --strict");
}

// Standard error as a terminal while `work` runs; returns what the terminal got.
std::string on_terminal(void (*work)()) {
  int terminal = -1;
  int program_side = -1;
  if (openpty(&terminal, &program_side, nullptr, nullptr, nullptr) != 0) return "no terminal";
  const int kept = dup(STDERR_FILENO);
  dup2(program_side, STDERR_FILENO);
  work();
  dup2(kept, STDERR_FILENO);
  close(kept);
  close(program_side);
  std::array<char, 4096> buffer{};
  std::string text;
  for (ssize_t count = 0; (count = read(terminal, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  close(terminal);
  return text;
}

TEST(Progress, AppearsAfterASecondAndGoesAway) {
  const std::string text = on_terminal([] {
    Progress progress;
    progress.now(
        "call.h5: judging \x1b"
        "fused");
    std::this_thread::sleep_for(std::chrono::milliseconds(1600));
  });
  EXPECT_NE(text.find("call.h5: judging ?fused"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(" \r")) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
}

TEST(Progress, SaysNothingAboutShortWork) {
  EXPECT_EQ(on_terminal([] {
              Progress progress;
              progress.now("short");
              std::this_thread::sleep_for(std::chrono::milliseconds(300));
            }),
            "");
}

}  // namespace
}  // namespace zerodiff::tools
