// Names of the host's runtime, so that host code in a kernel source parses. A source with `main` runs with the
// functions of host/runtime.h and host/runtime_family.h.
#pragma once
#include "mlu.h"
typedef int cnrtRet_t;
// Handles point to types that are never complete; libraries name those types with and without the ending.
#define __DLP_HANDLE(name) struct name; typedef struct name *name##_t;
__DLP_HANDLE(cnrtQueue) __DLP_HANDLE(cnrtNotifier) __DLP_HANDLE(cnrtKernelInitParam)
__DLP_HANDLE(cnrtKernelParamsBuffer) __DLP_HANDLE(cnrtModule) __DLP_HANDLE(cnrtTaskTopo) __DLP_HANDLE(cnrtMemPool)
__DLP_HANDLE(cnrtQuantizedParam)
#undef __DLP_HANDLE
typedef cnrtQueue cnrtQueue_st;
typedef cnrtNotifier cnrtNotifier_st;
typedef cnrtQueue_t cnrtStream_t;  // the queue's name in the first releases
typedef int cnrtDev_t;
typedef struct { unsigned int x, y, z; } cnrtDim3_t;
typedef enum { CNRT_FUNC_TYPE_BLOCK = 1, CNRT_FUNC_TYPE_UNION1 = 4, CNRT_FUNC_TYPE_UNION2 = 8, CNRT_FUNC_TYPE_UNION4 = 16,
               CNRT_FUNC_TYPE_UNION8 = 32, CNRT_FUNC_TYPE_UNION16 = 64, CNRT_FUNC_TYPE_MUTABLE = 128,
               BLOCK = 1, UNION1 = 4, UNION2 = 8, UNION4 = 16, UNION8 = 32, UNION16 = 64,
               cnrtFuncTypeBlock = 1, cnrtFuncTypeUnion1 = 4, cnrtFuncTypeUnion2 = 8, cnrtFuncTypeUnion4 = 16,
               cnrtFuncTypeUnion8 = 32, cnrtFuncTypeUnion16 = 64 } cnrtFunctionType_t;
typedef cnrtFunctionType_t cnrtJobType_t;
typedef enum { CNRT_MEM_TRANS_DIR_HOST2DEV, CNRT_MEM_TRANS_DIR_DEV2HOST, CNRT_MEM_TRANS_DIR_DEV2DEV, CNRT_MEM_TRANS_DIR_HOST2HOST,
               cnrtMemcpyHostToDev = 0, cnrtMemcpyDevToHost, cnrtMemcpyDevToDev, cnrtMemcpyHostToHost } cnrtMemTransDir_t;
typedef enum { CNRT_FLOAT16, CNRT_FLOAT32, CNRT_INT8, CNRT_INT16, CNRT_INT32, CNRT_UINT8, CNRT_UINT16, CNRT_UINT32, CNRT_INT64, CNRT_FLOAT64,
               CNRT_BOOL, cnrtHalf = 0, cnrtFloat, cnrtChar, cnrtShort, cnrtInt, cnrtUchar, cnrtUshort, cnrtUint, cnrtLonglong, cnrtDouble,
               cnrtBool } cnrtDataType_t;
typedef cnrtDataType_t cnrtDataType_V2_t;
typedef enum { cnrtRounding_rm, cnrtRounding_tz, cnrtRounding_oz, cnrtRounding_up, cnrtRounding_dn, cnrtRounding_rn } cnrtRoundingMode_t;
typedef enum { CNRT_MEMTYPE_DEFAULT, CNRT_MEMTYPE_LOCKED, CNRT_MEMTYPE_DEV } cnrtMemType_t;
typedef void (*cnrtHostFn_t)(void *);
// Of the properties that releases have, those that programs ask for.
typedef struct { char name[256]; int clusterCount, McorePerCluster, maxClusterCountPerUnionTask, nramSizePerMcore, wramSizePerMcore,
                 sramSizePerMcore, maxDim[3], totalMem, clusterClockRate; size_t totalGlobalMemSize; } cnrtDeviceProp_t;
typedef struct { char device_name[256]; int core_num, cluster_num, coreNumPerCluster; size_t total_memory; } cnrtDeviceInfo_t;
enum { CNRT_RET_SUCCESS = 0, cnrtSuccess = 0, CNRT_DISABLE_TASK = 0, CNRT_RET_ERR_INVALID = 632007, cnrtErrorArgsInvalid = 100100,
       cnrtErrorNotReady = 100012, cnrtErrorNoMem = 100101 };
typedef enum { cnrtAttrClusterCount, cnrtAttrMcorePerCluster, cnrtAttrNramSizePerMcore, cnrtAttrWramSizePerMcore,
               cnrtAttrSramSizePerMcore, cnrtAttrTotalMemSize, cnrtAttrClusterClockRate, cnrtAttrComputeCapabilityMajor,
               cnrtAttrComputeCapabilityMinor, cnrtAttrMaxClusterCountPerUnionTask, cnrtAttrMaxBlockTaskDimX, cnrtAttrMaxBlockTaskDimY,
               cnrtAttrMaxBlockTaskDimZ, cnrtAttrMaxQueueCount, __dlp_attr_used } cnrtDeviceAttr_t;
#define CNRT_CHECK(...) (void)(__VA_ARGS__)
extern "C" {
cnrtRet_t cnrtInit(unsigned int);
void cnrtDestroy(void);
cnrtRet_t cnrtGetDeviceHandle(cnrtDev_t *, int);
cnrtRet_t cnrtSetCurrentDevice(cnrtDev_t);
cnrtRet_t cnrtSetDevice(int);
cnrtRet_t cnrtGetDevice(int *);
cnrtRet_t cnrtGetDeviceCount(unsigned int *);
cnrtRet_t cnrtDeviceGetAttribute(int *, cnrtDeviceAttr_t, int);
cnrtRet_t cnrtCreateQueue(cnrtQueue_t *);
cnrtRet_t cnrtQueueCreate(cnrtQueue_t *);
cnrtRet_t cnrtDestroyQueue(cnrtQueue_t);
cnrtRet_t cnrtQueueDestroy(cnrtQueue_t);
cnrtRet_t cnrtSyncQueue(cnrtQueue_t);
cnrtRet_t cnrtQueueSync(cnrtQueue_t);
cnrtRet_t cnrtCreateNotifier(cnrtNotifier_t *);
cnrtRet_t cnrtNotifierCreate(cnrtNotifier_t *);
cnrtRet_t cnrtDestroyNotifier(cnrtNotifier_t *);
cnrtRet_t cnrtNotifierDestroy(cnrtNotifier_t);
cnrtRet_t cnrtPlaceNotifier(cnrtNotifier_t, cnrtQueue_t);
cnrtRet_t cnrtNotifierDuration(cnrtNotifier_t, cnrtNotifier_t, float *);
cnrtRet_t cnrtNotifierElapsedTime(cnrtNotifier_t, cnrtNotifier_t, float *);
cnrtRet_t cnrtMalloc(void **, size_t);
cnrtRet_t cnrtFree(void *);
cnrtRet_t cnrtMemcpy(void *, void *, size_t, cnrtMemTransDir_t);
cnrtRet_t cnrtMemcpyAsync(void *, void *, size_t, cnrtQueue_t, cnrtMemTransDir_t);
cnrtRet_t cnrtMemset(void *, int, size_t);
cnrtRet_t cnrtInvokeKernel_V2(const void *, cnrtDim3_t, cnrtKernelParamsBuffer_t, cnrtFunctionType_t, cnrtQueue_t);
cnrtRet_t cnrtInvokeKernel_V3(const void *, cnrtKernelInitParam_t, cnrtDim3_t, cnrtKernelParamsBuffer_t, cnrtFunctionType_t, cnrtQueue_t, void *);
cnrtRet_t cnrtGetKernelParamsBuffer(cnrtKernelParamsBuffer_t *);
cnrtRet_t cnrtKernelParamsBufferAddParam(cnrtKernelParamsBuffer_t, void *, size_t);
cnrtRet_t cnrtDestroyKernelParamsBuffer(cnrtKernelParamsBuffer_t);
cnrtRet_t cnrtCreateKernelInitParam(cnrtKernelInitParam_t *);
cnrtRet_t cnrtInitKernelMemory(const void *, cnrtKernelInitParam_t);
cnrtRet_t cnrtDestroyKernelInitParamAndMemory(cnrtKernelInitParam_t);
cnrtRet_t cnrtConvertFloatToHalf(unsigned short *, float);
cnrtRet_t cnrtConvertHalfToFloat(float *, unsigned short);
const char *cnrtGetErrorStr(cnrtRet_t);
const char *cnrtGetErrorName(cnrtRet_t);
cnrtRet_t cnrtGetLastError(void);
cnrtRet_t cnrtGetLastErr(void);
cnrtRet_t cnrtPeekAtLastError(void);
cnrtRet_t cnrtSyncDevice(void);
cnrtRet_t cnrtDeviceReset(void);
cnrtRet_t cnrtGetLibVersion(int *, int *, int *);
cnrtRet_t cnrtDriverGetVersion(int *, int *, int *);
cnrtRet_t cnrtGetDeviceProperties(cnrtDeviceProp_t *, int);
cnrtRet_t cnrtGetDeviceInfo(cnrtDeviceInfo_t *, int);
cnrtRet_t cnrtMemGetInfo(size_t *, size_t *);
cnrtRet_t cnrtCreateStream(cnrtStream_t *);
cnrtRet_t cnrtDestroyStream(cnrtStream_t);
cnrtRet_t cnrtSyncStream(cnrtStream_t);
cnrtRet_t cnrtQueryQueue(cnrtQueue_t);
cnrtRet_t cnrtQueueQuery(cnrtQueue_t);
cnrtRet_t cnrtQueueCreateWithPriority(cnrtQueue_t *, unsigned int, int);
cnrtRet_t cnrtQueueWaitNotifier(cnrtNotifier_t, cnrtQueue_t, unsigned int);
cnrtRet_t cnrtRuntimeCreateNotifier(cnrtNotifier_t *);
cnrtRet_t cnrtNotifierCreateWithFlags(cnrtNotifier_t *, unsigned int);
cnrtRet_t cnrtQueryNotifier(cnrtNotifier_t);
cnrtRet_t cnrtWaitNotifier(cnrtNotifier_t);
cnrtRet_t cnrtMallocHost(void **, size_t, cnrtMemType_t);
cnrtRet_t cnrtHostMalloc(void **, size_t);
cnrtRet_t cnrtFreeHost(void *);
cnrtRet_t cnrtFreeArray(void **, int);
cnrtRet_t cnrtMemsetAsync(void *, int, size_t, cnrtQueue_t);
cnrtRet_t cnrtMemsetD8(void *, unsigned char, size_t);
cnrtRet_t cnrtMemsetD16(void *, unsigned short, size_t);
cnrtRet_t cnrtMemsetD32(void *, unsigned int, size_t);
cnrtRet_t cnrtMemsetD8Async(void *, unsigned char, size_t, cnrtQueue_t);
cnrtRet_t cnrtMemsetD16Async(void *, unsigned short, size_t, cnrtQueue_t);
cnrtRet_t cnrtMemsetD32Async(void *, unsigned int, size_t, cnrtQueue_t);
cnrtRet_t cnrtMemcpyAsync_V2(void *, void *, size_t, cnrtQueue_t, cnrtMemTransDir_t);
cnrtRet_t cnrtMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, cnrtMemTransDir_t);
cnrtRet_t cnrtMemcpyPeer(void *, int, void *, int, size_t);
cnrtRet_t cnrtInvokeHostFunc(cnrtQueue_t, cnrtHostFn_t, void *);
cnrtRet_t cnrtCopyKernelParamsBuffer(cnrtKernelParamsBuffer_t, cnrtKernelParamsBuffer_t);
cnrtRet_t cnrtCreateQuantizedParam(cnrtQuantizedParam_t *, int, float, int);
cnrtRet_t cnrtDestroyQuantizedParam(cnrtQuantizedParam_t);
cnrtRet_t cnrtCastDataType(void *, cnrtDataType_t, void *, cnrtDataType_t, int, cnrtQuantizedParam_t);
cnrtRet_t cnrtCastDataType_V2(void *, cnrtDataType_t, void *, cnrtDataType_t, int, cnrtQuantizedParam_t, cnrtRoundingMode_t);
cnrtRet_t cnrtConvertFloatToHalfArray(unsigned short *, const float *, int);
cnrtRet_t cnrtConvertHalfToFloatArray(float *, const unsigned short *, int);
cnrtRet_t cnrtTransDataOrder(void *, cnrtDataType_t, void *, int, int *, int *);
cnrtRet_t cnrtFilterReshape(void *, void *, int, int, int, int, cnrtDataType_t);
}
// The first releases gave a buffer of parameters, later ones the addresses of all.
cnrtRet_t cnrtInvokeKernel(const void *, cnrtDim3_t, cnrtKernelParamsBuffer_t, cnrtFunctionType_t, cnrtQueue_t);
cnrtRet_t cnrtInvokeKernel(const void *, cnrtDim3_t, cnrtFunctionType_t, void **, size_t, cnrtQueue_t);
template <typename... P> cnrtRet_t cnrtInvokeKernel(void (*k)(P...), cnrtDim3_t d, cnrtFunctionType_t c, void **v, size_t n, cnrtQueue_t q) {
  return cnrtInvokeKernel((const void *)k, d, c, v, n, q);
}
template <typename T> cnrtRet_t cnrtHostMalloc(T **p, size_t n) { return cnrtHostMalloc((void **)p, n); }
template <typename T> cnrtRet_t cnrtMalloc(T **p, size_t n) { return cnrtMalloc((void **)p, n); }
template <typename T> cnrtRet_t cnrtMemcpy(void *d, const T *s, size_t n, cnrtMemTransDir_t k) { return cnrtMemcpy(d, (void *)s, n, k); }
