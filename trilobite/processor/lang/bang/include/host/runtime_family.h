// The rest of the host's runtime: older and newer names, properties, host memory, conversions of arrays.
template <typename T> static double __dlp_read(const void *p, long i) { return (double)((const T *)p)[i]; }
template <typename T> static void __dlp_write(void *p, long i, double x) { ((T *)p)[i] = (T)x; }
template <typename T> static void __dlp_write_whole(void *p, long i, double x) {
  const double low = (double)std::numeric_limits<T>::min(), high = (double)std::numeric_limits<T>::max();
  ((T *)p)[i] = x != x ? (T)0 : x <= low ? std::numeric_limits<T>::min() : x >= high ? std::numeric_limits<T>::max() : (T)x;
}
struct __dlp_type { int bytes; double (*read)(const void *, long); void (*write)(void *, long, double); bool whole; };
static const __dlp_type *__dlp_type_of(int which) {
  static const __dlp_type all[] = {
      {2, __dlp_read<_Float16>, __dlp_write<_Float16>, false}, {4, __dlp_read<float>, __dlp_write<float>, false},
      {1, __dlp_read<signed char>, __dlp_write_whole<signed char>, true}, {2, __dlp_read<short>, __dlp_write_whole<short>, true},
      {4, __dlp_read<int>, __dlp_write_whole<int>, true}, {1, __dlp_read<unsigned char>, __dlp_write_whole<unsigned char>, true},
      {2, __dlp_read<unsigned short>, __dlp_write_whole<unsigned short>, true}, {4, __dlp_read<unsigned>, __dlp_write_whole<unsigned>, true},
      {8, __dlp_read<long>, __dlp_write_whole<long>, true}, {8, __dlp_read<double>, __dlp_write<double>, false},
      {1, __dlp_read<bool>, __dlp_write<bool>, false}};
  return which < 0 || which > 10 ? nullptr : all + which;
}
static double __dlp_rounded(double x, int mode) {
  if (x != x || x - x != 0) return x;
  double down = __builtin_floor(x), up = __builtin_ceil(x);
  if (mode == cnrtRounding_dn) return down;
  if (mode == cnrtRounding_up) return up;
  if (mode == cnrtRounding_tz) return x < 0 ? up : down;
  if (mode == cnrtRounding_oz) return x < 0 ? down : up;
  if (mode == cnrtRounding_rn) return __builtin_rint(x);
  return __builtin_floor(x + 0.5);
}
struct __dlp_quantised { int position; float scale; int offset; };
extern "C" int dprintf(int, const char *, ...);
extern "C" int fflush(struct _IO_FILE *);
extern "C" [[noreturn]] void _exit(int);
[[noreturn]] void __dlp_end(const char *text) {
  fflush(nullptr);
  dprintf(2, "error: the program threw an exception: %s\n", text);
  _exit(1);
}
extern "C" {
void *memcpy(void *, const void *, size_t);
const char *cnrtGetErrorStr(cnrtRet_t code) { return code ? "an argument of the runtime is invalid" : "no error"; }
const char *cnrtGetErrorName(cnrtRet_t code) { return code ? "cnrtErrorArgsInvalid" : "cnrtSuccess"; }
cnrtRet_t cnrtPeekAtLastError(void) { return __dlp_last; }
cnrtRet_t cnrtGetLastError(void) { cnrtRet_t last = __dlp_last; __dlp_last = cnrtSuccess; return last; }
cnrtRet_t cnrtGetLastErr(void) { return cnrtGetLastError(); }
cnrtRet_t cnrtSyncDevice(void) { return cnrtSuccess; }
cnrtRet_t cnrtDeviceReset(void) { return cnrtSuccess; }
cnrtRet_t cnrtGetLibVersion(int *major, int *minor, int *patch) { *major = 6; *minor = 0; *patch = 0; return cnrtSuccess; }
cnrtRet_t cnrtDriverGetVersion(int *major, int *minor, int *patch) { return cnrtGetLibVersion(major, minor, patch); }
static int __dlp_attribute(cnrtDeviceAttr_t which) { int value = 0; cnrtDeviceGetAttribute(&value, which, 0); return value; }
static void __dlp_name(char *name, long n) { ((void (*)(char *, long))__dlp_table[8])(name, n); }
cnrtRet_t cnrtGetDeviceProperties(cnrtDeviceProp_t *p, int) {
  *p = cnrtDeviceProp_t();
  __dlp_name(p->name, sizeof(p->name));
  p->clusterCount = __dlp_attribute(cnrtAttrClusterCount);
  p->McorePerCluster = __dlp_attribute(cnrtAttrMcorePerCluster);
  p->maxClusterCountPerUnionTask = __dlp_attribute(cnrtAttrMaxClusterCountPerUnionTask);
  p->nramSizePerMcore = __dlp_attribute(cnrtAttrNramSizePerMcore);
  p->wramSizePerMcore = __dlp_attribute(cnrtAttrWramSizePerMcore);
  p->sramSizePerMcore = __dlp_attribute(cnrtAttrSramSizePerMcore);
  p->clusterClockRate = __dlp_attribute(cnrtAttrClusterClockRate);
  p->maxDim[0] = p->maxDim[1] = p->maxDim[2] = __dlp_attribute(cnrtAttrMaxBlockTaskDimX);
  p->totalMem = __dlp_attribute(cnrtAttrTotalMemSize);
  p->totalGlobalMemSize = (size_t)p->totalMem << 20;
  return cnrtSuccess;
}
cnrtRet_t cnrtGetDeviceInfo(cnrtDeviceInfo_t *p, int) {
  *p = cnrtDeviceInfo_t();
  __dlp_name(p->device_name, sizeof(p->device_name));
  p->cluster_num = __dlp_attribute(cnrtAttrClusterCount);
  p->coreNumPerCluster = __dlp_attribute(cnrtAttrMcorePerCluster);
  p->core_num = p->cluster_num * p->coreNumPerCluster;
  p->total_memory = (size_t)__dlp_attribute(cnrtAttrTotalMemSize) << 20;
  return cnrtSuccess;
}
cnrtRet_t cnrtMemGetInfo(size_t *left, size_t *total) {
  *total = (size_t)__dlp_attribute(cnrtAttrTotalMemSize) << 20;
  *left = *total - ((size_t)__dlp_attribute(__dlp_attr_used) << 10);
  return cnrtSuccess;
}
cnrtRet_t cnrtCreateStream(cnrtStream_t *q) { return cnrtQueueCreate(q); }
cnrtRet_t cnrtDestroyStream(cnrtStream_t q) { return cnrtQueueDestroy(q); }
cnrtRet_t cnrtSyncStream(cnrtStream_t q) { return cnrtQueueSync(q); }
cnrtRet_t cnrtQueryQueue(cnrtQueue_t) { return cnrtSuccess; }
cnrtRet_t cnrtQueueQuery(cnrtQueue_t) { return cnrtSuccess; }
cnrtRet_t cnrtQueueCreateWithPriority(cnrtQueue_t *q, unsigned int, int) { return cnrtQueueCreate(q); }
cnrtRet_t cnrtQueueWaitNotifier(cnrtNotifier_t, cnrtQueue_t, unsigned int) { return cnrtSuccess; }
cnrtRet_t cnrtRuntimeCreateNotifier(cnrtNotifier_t *n) { return cnrtNotifierCreate(n); }
cnrtRet_t cnrtNotifierCreateWithFlags(cnrtNotifier_t *n, unsigned int) { return cnrtNotifierCreate(n); }
cnrtRet_t cnrtQueryNotifier(cnrtNotifier_t) { return cnrtSuccess; }
cnrtRet_t cnrtWaitNotifier(cnrtNotifier_t) { return cnrtSuccess; }
cnrtRet_t cnrtHostMalloc(void **p, size_t n) { *p = n ? malloc(n) : nullptr; return cnrtSuccess; }
cnrtRet_t cnrtMallocHost(void **p, size_t n, cnrtMemType_t) { return cnrtHostMalloc(p, n); }
cnrtRet_t cnrtFreeHost(void *p) { free(p); return cnrtSuccess; }
cnrtRet_t cnrtFreeArray(void **p, int n) { for (int i = 0; i < n; ++i) cnrtFree(p[i]); return cnrtSuccess; }
cnrtRet_t cnrtMemsetAsync(void *p, int value, size_t n, cnrtQueue_t) { return cnrtMemset(p, value, n); }
static cnrtRet_t __dlp_fill(void *p, const void *value, size_t bytes, size_t n) {
  char *made = (char *)malloc(n * bytes + 1);
  for (size_t i = 0; i < n; ++i) memcpy(made + i * bytes, value, bytes);
  cnrtRet_t done = cnrtMemcpy(p, (void *)made, n * bytes, cnrtMemcpyHostToDev);
  free(made);
  return done;
}
cnrtRet_t cnrtMemsetD8(void *p, unsigned char value, size_t n) { return cnrtMemset(p, value, n); }
cnrtRet_t cnrtMemsetD16(void *p, unsigned short value, size_t n) { return __dlp_fill(p, &value, 2, n); }
cnrtRet_t cnrtMemsetD32(void *p, unsigned int value, size_t n) { return __dlp_fill(p, &value, 4, n); }
cnrtRet_t cnrtMemsetD8Async(void *p, unsigned char value, size_t n, cnrtQueue_t) { return cnrtMemsetD8(p, value, n); }
cnrtRet_t cnrtMemsetD16Async(void *p, unsigned short value, size_t n, cnrtQueue_t) { return cnrtMemsetD16(p, value, n); }
cnrtRet_t cnrtMemsetD32Async(void *p, unsigned int value, size_t n, cnrtQueue_t) { return cnrtMemsetD32(p, value, n); }
cnrtRet_t cnrtMemcpyAsync_V2(void *d, void *s, size_t n, cnrtQueue_t q, cnrtMemTransDir_t way) { return cnrtMemcpyAsync(d, s, n, q, way); }
cnrtRet_t cnrtMemcpy2D(void *d, size_t d_pitch, const void *s, size_t s_pitch, size_t width, size_t height, cnrtMemTransDir_t way) {
  if (width > d_pitch || width > s_pitch) return __dlp_failed(cnrtErrorArgsInvalid);
  for (size_t i = 0; i < height; ++i) cnrtMemcpy((char *)d + i * d_pitch, (void *)((const char *)s + i * s_pitch), width, way);
  return cnrtSuccess;
}
cnrtRet_t cnrtMemcpyPeer(void *d, int, void *s, int, size_t n) { return cnrtMemcpy(d, s, n, cnrtMemcpyDevToDev); }
cnrtRet_t cnrtInvokeHostFunc(cnrtQueue_t, cnrtHostFn_t f, void *value) { f(value); return cnrtSuccess; }
cnrtRet_t cnrtCopyKernelParamsBuffer(cnrtKernelParamsBuffer_t to, cnrtKernelParamsBuffer_t from) {
  __dlp_params *d = (__dlp_params *)to;
  const __dlp_params *s = (const __dlp_params *)from;
  *d = *s;
  for (int i = 0; i < d->count; ++i) d->values[i] = d->bytes + ((const char *)s->values[i] - s->bytes);
  return cnrtSuccess;
}
cnrtRet_t cnrtCreateQuantizedParam(cnrtQuantizedParam_t *p, int position, float scale, int offset) {
  *p = (cnrtQuantizedParam_t)new __dlp_quantised{position, scale, offset};
  return cnrtSuccess;
}
cnrtRet_t cnrtDestroyQuantizedParam(cnrtQuantizedParam_t p) { delete (__dlp_quantised *)p; return cnrtSuccess; }
// From floats q = x scale / 2^position + offset, back the other way; whole numbers saturate.
cnrtRet_t cnrtCastDataType_V2(void *s, cnrtDataType_t from, void *d, cnrtDataType_t to, int n, cnrtQuantizedParam_t p, cnrtRoundingMode_t mode) {
  const __dlp_type *a = __dlp_type_of(from), *b = __dlp_type_of(to);
  if (!a || !b || n < 0) return __dlp_failed(cnrtErrorArgsInvalid);
  const __dlp_quantised *q = (const __dlp_quantised *)p;
  const double step = q ? __builtin_ldexp(1.0, q->position) / q->scale : 1.0, offset = q ? q->offset : 0;
  for (long i = 0; i < n; ++i) {
    double x = a->read(s, i);
    if (q && b->whole && !a->whole) x = x / step + offset;
    if (q && a->whole && !b->whole) x = (x - offset) * step;
    b->write(d, i, b->whole ? __dlp_rounded(x, mode) : x);
  }
  return cnrtSuccess;
}
cnrtRet_t cnrtCastDataType(void *s, cnrtDataType_t from, void *d, cnrtDataType_t to, int n, cnrtQuantizedParam_t p) {
  return cnrtCastDataType_V2(s, from, d, to, n, p, cnrtRounding_rm);
}
cnrtRet_t cnrtConvertFloatToHalfArray(unsigned short *d, const float *s, int n) {
  return cnrtCastDataType((void *)s, CNRT_FLOAT32, d, CNRT_FLOAT16, n, nullptr);
}
cnrtRet_t cnrtConvertHalfToFloatArray(float *d, const unsigned short *s, int n) {
  return cnrtCastDataType((void *)s, CNRT_FLOAT16, d, CNRT_FLOAT32, n, nullptr);
}
// The axis i of the result is the axis order[i] of the source.
cnrtRet_t cnrtTransDataOrder(void *s, cnrtDataType_t type, void *d, int rank, int *extents, int *order) {
  const __dlp_type *t = __dlp_type_of(type);
  if (!t || rank < 1 || rank > 8) return __dlp_failed(cnrtErrorArgsInvalid);
  long strides[8], count = 1, at[8] = {0};
  for (int i = rank; i-- > 0; count *= extents[i]) strides[i] = count;
  for (long place = 0; place < count; ++place) {
    long from = 0;
    for (int i = 0; i < rank; ++i) from += at[i] * strides[order[i]];
    memcpy((char *)d + place * t->bytes, (char *)s + from * t->bytes, t->bytes);
    for (int i = rank; i-- > 0;) { if (++at[i] < extents[order[i]]) break; at[i] = 0; }
  }
  return cnrtSuccess;
}
// Filter r lies in lane r % 64, slot r / 64, as __bang_reshape_filter leaves it.
cnrtRet_t cnrtFilterReshape(void *d, void *s, int n, int h, int w, int c, cnrtDataType_t type) {
  const __dlp_type *t = __dlp_type_of(type);
  if (!t || n % 64) return __dlp_failed(cnrtErrorArgsInvalid);
  const size_t row = (size_t)h * w * c * t->bytes;
  for (long r = 0; r < n; ++r) memcpy((char *)d + (r % 64 * (n / 64) + r / 64) * row, (char *)s + r * row, row);
  return cnrtSuccess;
}
}
cnrtRet_t cnrtInvokeKernel(const void *k, cnrtDim3_t d, cnrtKernelParamsBuffer_t b, cnrtFunctionType_t kind, cnrtQueue_t q) {
  return cnrtInvokeKernel_V2(k, d, b, kind, q);
}
// The kernel's own stand-in knows how large each parameter is; it is called for that, and takes the values from here.
cnrtRet_t cnrtInvokeKernel(const void *k, cnrtDim3_t d, cnrtFunctionType_t kind, void **values, size_t, cnrtQueue_t q) {
  __dlp_dim[0] = d.x; __dlp_dim[1] = d.y; __dlp_dim[2] = d.z;
  __dlp_kind = (int)kind;
  __dlp_queue = q;
  __dlp_given = values;
  ((void (*)())k)();
  return cnrtSuccess;
}
