#include "compare/report.h"

namespace zerodiff::compare {

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::identical:
      return "identical";
    case Verdict::legal:
      return "legal";
    case Verdict::bounded:
      return "bounded";
    case Verdict::fault:
      return "fault";
    case Verdict::different:
      return "different";
    case Verdict::absent:
      return "absent";
  }
  return "";
}

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::passed:
      return "PASSED";
    case Outcome::failed:
      return "FAILED";
    case Outcome::mistrusted:
      return "MISTRUSTED";
    case Outcome::skipped:
      return "SKIPPED";
    case Outcome::invalid_input:
      return "INVALID_INPUT";
    case Outcome::crashed:
      return "CRASHED";
    case Outcome::timed_out:
      return "TIMED_OUT";
    case Outcome::missing:
      return "MISSING";
  }
  return "";
}

const char* name_of(Scope scope) {
  return scope == Scope::stage ? "stage" : "end_to_end";
}

bool is_right(Verdict verdict) {
  return verdict == Verdict::identical || verdict == Verdict::legal || verdict == Verdict::bounded;
}

const char* name_of(GraphScope scope) {
  return scope == GraphScope::insertion ? "insertion" : "layer";
}

const char* name_of(SlotMapVerdict verdict) {
  switch (verdict) {
    case SlotMapVerdict::equivalent:
      return "equivalent";
    case SlotMapVerdict::not_equivalent:
      return "not_equivalent";
    case SlotMapVerdict::not_applicable:
      return "not_applicable";
  }
  return "";
}

}  // namespace zerodiff::compare
