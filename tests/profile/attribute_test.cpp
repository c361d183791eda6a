// How a run's time is shared out, and what of the observer's own time is taken off.
#include "profile/attribute.h"

#include <gtest/gtest.h>

#include "profile/statistics.h"

namespace deepjit::profile {

namespace {

using Kind = Span::Kind;

struct Result {
  Shares shares;
  std::vector<double> steps;
};

Result share_out(const std::vector<Span>& spans, double wall, const Cost& cost = {}) {
  Result result{{}, std::vector<double>(5, 0)};
  result.shares = attribute({wall, false, spans}, cost, result.steps);
  return result;
}

TEST(Attribute, EveryMomentHasOneOwner) {
  const Result r =
      share_out({{Kind::STEP, 0, -1, 10, 30}, {Kind::STEP, 1, -1, 32, 40}, {Kind::COPY_OUT, -1, -1, 41, 45}}, 50);
  EXPECT_EQ(r.steps[0], 20);
  EXPECT_EQ(r.steps[1], 8);
  EXPECT_EQ(r.shares.steps, 28);
  EXPECT_EQ(r.shares.copy_out, 4);
  EXPECT_EQ(r.shares.gaps, 3);
  EXPECT_EQ(r.shares.host, 10 + 5);
  EXPECT_EQ(r.shares.sum(), 50);
}

TEST(Attribute, AStepDoesNotHaveTheTimeOfThoseInItsBody) {
  const Result r = share_out({{Kind::STEP, 0, -1, 0, 100},
                              {Kind::STEP, 1, -1, 10, 30},
                              {Kind::STEP, 2, -1, 30, 60},
                              {Kind::STEP, 1, -1, 40, 50},
                              {Kind::STEP, 3, -1, 100, 110}},
                             110);
  EXPECT_EQ(r.steps[0], 100 - 20 - 30);
  EXPECT_EQ(r.steps[1], 20 + 10);
  EXPECT_EQ(r.steps[2], 20);
  EXPECT_EQ(r.steps[3], 10);
  EXPECT_EQ(r.shares.gaps, 0);
  EXPECT_EQ(r.shares.sum(), 110);
}

TEST(Attribute, KernelsThatOverlapAreCountedOnce) {
  const Result r = share_out({{Kind::STEP, 0, -1, 0, 10},
                              {Kind::STEP, 1, -1, 8, 20},
                              {Kind::STEP, 2, -1, 12, 15},
                              {Kind::STEP, 3, -1, 18, 21}},
                             21);
  EXPECT_EQ(r.steps[0], 10);
  EXPECT_EQ(r.steps[1], 20 - 10 - 3);
  EXPECT_EQ(r.steps[2], 3);
  EXPECT_EQ(r.steps[3], 1);
  EXPECT_EQ(r.shares.sum(), 21);
}

TEST(Attribute, TheClocksCostIsTakenOff) {
  const Cost cost{2, 3};
  const Result r =
      share_out({{Kind::STEP, 0, -1, 10, 30}, {Kind::STEP, 1, -1, 15, 20}, {Kind::STEP, 2, -1, 34, 35}}, 40, cost);
  EXPECT_EQ(r.steps[1], 5 - 2);
  EXPECT_EQ(r.steps[0], 15 - 2 - 3);  // its own marks, and those around the step inside
  EXPECT_EQ(r.steps[2], 0);           // never below nothing
  EXPECT_EQ(r.shares.gaps, 4 - 3);
  EXPECT_EQ(r.shares.host, 10 - 1.5 + 5 - 1.5);
  EXPECT_EQ(r.shares.profiling, 2 + 5 + 1 + 3 + 3);
  EXPECT_EQ(r.shares.sum(), 40);
}

TEST(Attribute, ARunWithoutStepsIsTheHosts) {
  const Result r = share_out({}, 7, {2, 3});
  EXPECT_EQ(r.shares.host, 7);
  EXPECT_EQ(r.shares.sum(), 7);
}

TEST(Statistics, TypicalIsTheMeanOfTheMiddle) {
  const Times t = times_of(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 1000});
  EXPECT_EQ(t.p50, 4);
  EXPECT_EQ(t.p95, 1000);
  EXPECT_EQ(t.typical, (3 + 4 + 5 + 6) / 4.0);
  EXPECT_EQ(times_of(std::vector<double>{5}).typical, 5);
  EXPECT_EQ(times_of(std::vector<double>{}).p50, 0);
}

}  // namespace

}  // namespace deepjit::profile
