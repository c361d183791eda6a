#include <fmt/format.h>

#include <sstream>

#include "tune/tuner.h"

namespace deepjit {

namespace {
constexpr const char* kHeader = "# deepjit lockfile 1: fingerprint op tactic time_us spread_us max_error [rule figure]";
}

std::string write_lock(const std::vector<Choice>& choices) {
  std::string text = std::string(kHeader) + "\n";
  for (const Choice& c : choices) {
    text += fmt::format("{} {} {} {:.3f} {:.3f} {:.2e}", c.fingerprint, c.op, c.tactic, c.time_us, c.spread_us,
                        c.max_error);
    if (c.why != Why::NONE) text += fmt::format(" {} {:.3e}", why_rule(c.why).id, c.figure);
    text += "\n";
  }
  return text;
}

std::map<std::string, Choice> read_lock(const std::string& text) {
  std::map<std::string, Choice> choices;
  std::istringstream in(text);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    Choice c;
    const bool read =
        static_cast<bool>(words >> c.fingerprint >> c.op >> c.tactic >> c.time_us >> c.spread_us >> c.max_error);
    std::string why;
    const bool has_why = read && static_cast<bool>(words >> why);
    const auto rule = has_why ? parse_why(why) : Why::NONE;
    if (!read || c.fingerprint.size() != 32 || !rule || (has_why && !(words >> c.figure))) {
      throw Error(Code::ARGUMENT, "lockfile line " + std::to_string(number) + " is not understood: " + line,
                  "a line reads: fingerprint op tactic time_us spread_us max_error [rule figure]");
    }
    c.why = *rule;
    choices[c.fingerprint] = c;
  }
  return choices;
}

}  // namespace deepjit
