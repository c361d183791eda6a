#include "profile/attribute.h"

#include <algorithm>

namespace deepjit::profile {

namespace {

class Walk {
 public:
  Walk(const Timeline& timeline, const Cost& cost, std::vector<double>& of_step)
      : timeline_(timeline), cost_(cost), of_step_(of_step) {}

  Shares run() {
    for (const Span& span : timeline_.spans) {
      // One that ends later than what is on is not inside of it.
      while (!open_.empty() && (ended(span.start_us) || open_.back().span->end_us < span.end_us)) close();
      if (open_.empty()) {
        if (first_) shares_.host += take(span.start_us, cost_.around_us / 2);
        // A kernel may start before the one in front of it has ended: what they share is that one's.
        if (!first_) shares_.gaps += take(std::max(0.0, span.start_us - end_), cost_.around_us);
        first_ = false;
      }
      open_.push_back({&span, std::max(span.start_us, end_), 0, 0});
    }
    while (!open_.empty()) close();
    shares_.host += first_ ? timeline_.wall_us : take(timeline_.wall_us - end_, cost_.around_us / 2);
    return shares_;
  }

 private:
  struct Open {
    const Span* span;
    double start;
    double inner;  // time of the spans inside
    int count;     // of them
  };

  // Of a piece of time, what is left without the observer's part in it.
  double take(double time, double observed) {
    const double off = std::clamp(observed, 0.0, std::max(0.0, time));
    shares_.profiling += off;
    return time - off;
  }

  bool ended(double moment) const { return open_.back().span->end_us <= moment; }

  void close() {
    const Open last = open_.back();
    open_.pop_back();
    const double time = std::max(0.0, last.span->end_us - last.start);
    const double own = take(time - last.inner, cost_.inside_us + last.count * cost_.around_us);
    if (open_.empty()) {
      end_ = std::max(end_, last.span->end_us);
    } else {
      open_.back().inner += time;
      ++open_.back().count;
    }
    add(*last.span, own);
  }

  void add(const Span& span, double own) {
    if (span.step >= -1) of_step_[span.step < 0 ? of_step_.size() - 1 : static_cast<size_t>(span.step)] += own;
    (span.kind == Span::Kind::STEP      ? shares_.steps
     : span.kind == Span::Kind::COPY_IN ? shares_.copy_in
                                        : shares_.copy_out) += own;
  }

  const Timeline& timeline_;
  const Cost& cost_;
  std::vector<double>& of_step_;
  Shares shares_;
  std::vector<Open> open_;
  bool first_ = true;
  double end_ = 0;
};

}  // namespace

Shares attribute(const Timeline& timeline, const Cost& cost, std::vector<double>& of_step) {
  return Walk(timeline, cost, of_step).run();
}

}  // namespace deepjit::profile
