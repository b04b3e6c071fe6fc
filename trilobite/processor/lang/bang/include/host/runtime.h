// The host's runtime in a program that runs beside the simulated device: every function asks the simulator
// through a table of addresses that it fills before `main` begins.
extern "C" {
void *__dlp_table[9];
void **__dlp_given;  // addresses of all parameters, where a kernel is launched with those
int __dlp_dim[3], __dlp_kind;
void *__dlp_queue;
cnrtRet_t cnrtMalloc(void **p, size_t n) {
  *p = (void *)((unsigned long (*)(unsigned long))__dlp_table[0])(n);
  return cnrtSuccess;
}
cnrtRet_t cnrtFree(void *p) { ((void (*)(void *))__dlp_table[1])(p); return cnrtSuccess; }
cnrtRet_t cnrtMemcpy(void *d, void *s, size_t n, cnrtMemTransDir_t way) {
  ((void (*)(void *, void *, unsigned long, long))__dlp_table[2])(d, s, n, (long)way);
  return cnrtSuccess;
}
cnrtRet_t cnrtMemcpyAsync(void *d, void *s, size_t n, cnrtQueue_t, cnrtMemTransDir_t way) { return cnrtMemcpy(d, s, n, way); }
cnrtRet_t cnrtMemset(void *p, int value, size_t n) {
  ((void (*)(void *, long, unsigned long))__dlp_table[3])(p, value, n);
  return cnrtSuccess;
}
void __dlp_start(const void *kernel, const void **values, const unsigned long *sizes, int count) {
  if (__dlp_given) values = (const void **)__dlp_given;
  __dlp_given = nullptr;
  ((void (*)(const void *, const int *, long, void *, const void **, const unsigned long *, long))__dlp_table[4])(
      kernel, __dlp_dim, __dlp_kind, __dlp_queue, values, sizes, count);
}
cnrtRet_t cnrtQueueCreate(cnrtQueue_t *q) { *q = (cnrtQueue_t)((void *(*)(void))__dlp_table[5])(); return cnrtSuccess; }
cnrtRet_t cnrtCreateQueue(cnrtQueue_t *q) { return cnrtQueueCreate(q); }
cnrtRet_t cnrtQueueDestroy(cnrtQueue_t) { return cnrtSuccess; }
cnrtRet_t cnrtDestroyQueue(cnrtQueue_t) { return cnrtSuccess; }
cnrtRet_t cnrtQueueSync(cnrtQueue_t) { return cnrtSuccess; }
cnrtRet_t cnrtSyncQueue(cnrtQueue_t) { return cnrtSuccess; }
cnrtRet_t cnrtNotifierCreate(cnrtNotifier_t *n) { *n = (cnrtNotifier_t)new double(0); return cnrtSuccess; }
cnrtRet_t cnrtCreateNotifier(cnrtNotifier_t *n) { return cnrtNotifierCreate(n); }
cnrtRet_t cnrtNotifierDestroy(cnrtNotifier_t n) { delete (double *)n; return cnrtSuccess; }
cnrtRet_t cnrtDestroyNotifier(cnrtNotifier_t *n) { delete (double *)*n; return cnrtSuccess; }
cnrtRet_t cnrtPlaceNotifier(cnrtNotifier_t n, cnrtQueue_t q) {
  *(double *)n = ((double (*)(void *))__dlp_table[6])(q);
  return cnrtSuccess;
}
cnrtRet_t cnrtNotifierDuration(cnrtNotifier_t a, cnrtNotifier_t b, float *us) {
  *us = (float)(*(double *)b - *(double *)a);
  return cnrtSuccess;
}
cnrtRet_t cnrtNotifierElapsedTime(cnrtNotifier_t a, cnrtNotifier_t b, float *ms) {
  *ms = (float)((*(double *)b - *(double *)a) / 1000);
  return cnrtSuccess;
}
cnrtRet_t cnrtInit(unsigned int) { return cnrtSuccess; }
void cnrtDestroy(void) {}
cnrtRet_t cnrtGetDeviceHandle(cnrtDev_t *d, int n) { *d = n; return cnrtSuccess; }
cnrtRet_t cnrtSetCurrentDevice(cnrtDev_t) { return cnrtSuccess; }
cnrtRet_t cnrtSetDevice(int) { return cnrtSuccess; }
cnrtRet_t cnrtGetDevice(int *n) { *n = 0; return cnrtSuccess; }
cnrtRet_t cnrtGetDeviceCount(unsigned int *n) { *n = 1; return cnrtSuccess; }
cnrtRet_t cnrtDeviceGetAttribute(int *value, cnrtDeviceAttr_t which, int) {
  *value = (int)((long (*)(long))__dlp_table[7])((long)which);
  return cnrtSuccess;
}
static cnrtRet_t __dlp_last;
static cnrtRet_t __dlp_failed(cnrtRet_t code) { return __dlp_last = code; }
struct __dlp_params { const void *values[64]; unsigned long sizes[64]; char bytes[1024]; int count, used; };
cnrtRet_t cnrtGetKernelParamsBuffer(cnrtKernelParamsBuffer_t *b) {
  *b = (cnrtKernelParamsBuffer_t)new __dlp_params();
  return cnrtSuccess;
}
cnrtRet_t cnrtKernelParamsBufferAddParam(cnrtKernelParamsBuffer_t b, void *value, size_t n) {
  __dlp_params *p = (__dlp_params *)b;
  if (p->count == 64 || p->used + n > sizeof(p->bytes)) return __dlp_failed(cnrtErrorArgsInvalid);
  __builtin_memcpy(p->bytes + p->used, value, n);
  p->values[p->count] = p->bytes + p->used;
  p->sizes[p->count++] = n;
  p->used += (int)((n + 15) & ~15ul);
  return cnrtSuccess;
}
cnrtRet_t cnrtDestroyKernelParamsBuffer(cnrtKernelParamsBuffer_t b) { delete (__dlp_params *)b; return cnrtSuccess; }
cnrtRet_t cnrtInvokeKernel_V2(const void *k, cnrtDim3_t d, cnrtKernelParamsBuffer_t b, cnrtFunctionType_t kind, cnrtQueue_t q) {
  __dlp_params *p = (__dlp_params *)b;
  __dlp_dim[0] = d.x; __dlp_dim[1] = d.y; __dlp_dim[2] = d.z;
  __dlp_kind = (int)kind;
  __dlp_queue = q;
  __dlp_start(k, p->values, p->sizes, p->count);
  return cnrtSuccess;
}
cnrtRet_t cnrtInvokeKernel_V3(const void *k, cnrtKernelInitParam_t, cnrtDim3_t d, cnrtKernelParamsBuffer_t b, cnrtFunctionType_t kind, cnrtQueue_t q, void *) {
  return cnrtInvokeKernel_V2(k, d, b, kind, q);
}
cnrtRet_t cnrtCreateKernelInitParam(cnrtKernelInitParam_t *p) { *p = 0; return cnrtSuccess; }
cnrtRet_t cnrtInitKernelMemory(const void *, cnrtKernelInitParam_t) { return cnrtSuccess; }
cnrtRet_t cnrtDestroyKernelInitParamAndMemory(cnrtKernelInitParam_t) { return cnrtSuccess; }
cnrtRet_t cnrtConvertFloatToHalf(unsigned short *h, float x) {
  _Float16 narrow = (_Float16)x;
  __builtin_memcpy(h, &narrow, 2);
  return cnrtSuccess;
}
cnrtRet_t cnrtConvertHalfToFloat(float *x, unsigned short h) {
  _Float16 narrow;
  __builtin_memcpy(&narrow, &h, 2);
  *x = (float)narrow;
  return cnrtSuccess;
}
}
