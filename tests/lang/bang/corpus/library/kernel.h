// What an operator library keeps in the header of all its kernels.
#ifndef LIBRARY_KERNEL_H_
#define LIBRARY_KERNEL_H_
#if defined(__BANG__)
#include <mlu.h>
#endif
#define STACK_BYTES (128 * 1024)
#ifdef __BANG_ARCH__
#define MAX_NRAM_SIZE (__MLU_NRAM_SIZE__ * 1024 - STACK_BYTES)
#define MAX_SRAM_SIZE (__MLU_SRAM_SIZE__ * 1024 - STACK_BYTES)
#else
#define MAX_NRAM_SIZE (384 * 1024)
#endif
#define NFU_ALIGN_SIZE 128
#if __BANG_ARCH__ == 372
#define sizeof(T) (uint32_t(sizeof(T)))
#endif
#ifndef PAD_DOWN
#define PAD_DOWN(x, y) (((x) / (y)) * (y))
#endif
#ifndef PAD_UP
#define PAD_UP(x, y) (((x) / (y) + (int)((x) % (y) > 0)) * (y))
#endif
#define DEVICE_ASSERT(truth, message) \
  if (!(truth)) __assert_fail(message, __FILE__, static_cast<unsigned int>(__LINE__), __func__);
#endif
