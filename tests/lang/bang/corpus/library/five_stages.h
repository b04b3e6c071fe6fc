// Load to SRAM, move to NRAM, compute, move back, store: every core runs the text, nobody asks who it is
// except where the rest is shared out.
#ifndef LIBRARY_FIVE_STAGES_H_
#define LIBRARY_FIVE_STAGES_H_
#include "common.h"
#define NRAM_BYTES (MAX_NRAM_SIZE + STACK_BYTES - 148 * 1024)
#define SRAM_BYTES (4 * NRAM_BYTES)

__mlu_func__ void share_out(size_t total, size_t &mine, size_t &begin) {
#ifdef ASKS_WHO_IT_IS
  if (coreId != 0x80) {
#endif
    mine = total / taskDimX;
    size_t rest = total % taskDimX;
    mine += taskIdX < rest;
    begin = taskIdX * mine + (taskIdX >= rest) * rest;
#ifdef ASKS_WHO_IT_IS
  }
#endif
}

#define FIVE_STAGES(Op)                                                                                       \
  template <typename In, typename Out, typename... Args>                                                      \
  __mlu_global__ void five_stages_##Op(int8_t *x, int8_t *y, size_t elements, size_t tile, Args... args) {    \
    size_t in_gap = 0, aux_gap = 0;                                                                           \
    plan_##Op<In, Out>(tile, in_gap, aux_gap, args...);                                                       \
    size_t cluster_mine = elements / taskDimY + (taskIdY < elements % taskDimY);                              \
    size_t cluster_begin = taskIdY * (elements / taskDimY) + std::min((size_t)taskIdY, elements % taskDimY);  \
    size_t round = tile * taskDimX;                                                                           \
    int repeat = cluster_mine / round;                                                                        \
    size_t rest = cluster_mine % round, rest_mine = 0, rest_begin = 0;                                        \
    share_out(rest, rest_mine, rest_begin);                                                                   \
    size_t gap = round * std::max(sizeof(In), sizeof(Out));                                                   \
    int8_t *from = x + cluster_begin * sizeof(In), *to = y + cluster_begin * sizeof(Out);                     \
    int8_t *ping = (int8_t *)sram_buffer, *out = (int8_t *)nram_buffer;                                       \
    int8_t *in = out + in_gap, *aux = out + aux_gap;                                                          \
    for (int i = 0; i < repeat + 2; i++) {                                                                    \
      if (i >= 2)                                                                                             \
        __memcpy_async(to + (i - 2) * round * sizeof(Out), ping + (i % 2) * gap, round * sizeof(Out),         \
                       SRAM2GDRAM);                                                                           \
      if (i < repeat)                                                                                         \
        __memcpy_async(ping + (i % 2) * gap, from + i * round * sizeof(In), round * sizeof(In), GDRAM2SRAM);  \
      if (i >= 1 && i <= repeat) {                                                                            \
        __memcpy_async(in, ping + ((i - 1) % 2) * gap + taskIdX * tile * sizeof(In), tile * sizeof(In),       \
                       SRAM2NRAM);                                                                            \
        __sync_move();                                                                                        \
        compute_##Op<In, Out>(out, in, aux, tile, args...);                                                   \
        __sync_compute();                                                                                     \
        __memcpy_async(ping + ((i - 1) % 2) * gap + taskIdX * tile * sizeof(Out), out, tile * sizeof(Out),    \
                       NRAM2SRAM);                                                                            \
      }                                                                                                       \
      __sync_cluster();                                                                                       \
    }                                                                                                         \
    if (rest > 0) {                                                                                           \
      __memcpy_async(ping, from + repeat * round * sizeof(In), rest * sizeof(In), GDRAM2SRAM);                \
      __sync_cluster();                                                                                       \
      if (rest_mine > 0) {                                                                                    \
        __memcpy_async(in, ping + rest_begin * sizeof(In), rest_mine * sizeof(In), SRAM2NRAM);                \
        __sync_move();                                                                                        \
        compute_##Op<In, Out>(out, in, aux, rest_mine, args...);                                              \
        __sync_compute();                                                                                     \
        __memcpy_async(ping + gap + rest_begin * sizeof(Out), out, rest_mine * sizeof(Out), NRAM2SRAM);       \
      }                                                                                                       \
      __sync_cluster();                                                                                       \
      __memcpy_async(to + repeat * round * sizeof(Out), ping + gap, rest * sizeof(Out), SRAM2GDRAM);          \
      __sync_cluster();                                                                                       \
    }                                                                                                         \
  }
#endif
