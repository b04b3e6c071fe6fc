// What the programs of this folder share: random numbers, and the comparison of results.
#pragma once
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
static inline float random_number(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 8) / (1 << 24) * 4.0f - 2.0f;
}
static inline int report(const char *what, const float *got, const float *want, int n, float tolerance) {
  int wrong = 0;
  for (int i = 0; i < n; ++i)
    if (!(fabsf(got[i] - want[i]) <= tolerance * (1.0f + fabsf(want[i])))) {
      if (wrong++ < 3) printf("%s[%d] is %f, not %f\n", what, i, got[i], want[i]);
    }
  printf("%s: %s (%d values)\n", what, wrong ? "FAILED" : "passed", n);
  return wrong != 0;
}
