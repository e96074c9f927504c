/* A driver library without a driver, for test_cuda_bindings.py: it prints what the bindings pass to it, and every call succeeds. */

#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint64_t u;

/* Functions that only print their first `n` arguments. */
#define PRINTS(name, n)                                                                       \
    int name(u a, u b, u c, u d, u e, u f) {                                                  \
        u all[] = {a, b, c, d, e, f};                                                         \
        printf(#name);                                                                        \
        for (int k = 0; k < n; k++) printf(" %llx", (unsigned long long)all[k]);              \
        printf("\n");                                                                         \
        return 0;                                                                             \
    }

/* Functions that give a handle. */
#define GIVES(name, value) int name(u *made, u a, u b, u c) { *made = value; return 0; }

PRINTS(cuInit, 0)
PRINTS(cuCtxSetCurrent, 1)
PRINTS(cuCtxPushCurrent, 1)
PRINTS(cuDevicePrimaryCtxRelease, 0)
PRINTS(cuMemPoolSetAttribute, 1)
PRINTS(cuMemPoolDestroy, 1)
PRINTS(cuMemFreeAsync, 2)
PRINTS(cuMemFree, 1)
PRINTS(cuMemFreeHost, 1)
PRINTS(cuStreamDestroy, 1)
PRINTS(cuStreamWaitEvent, 2)
PRINTS(cuEventDestroy, 1)
PRINTS(cuEventRecord, 2)
PRINTS(cuEventSynchronize, 1)
PRINTS(cuModuleUnload, 1)
PRINTS(cuFuncSetAttribute, 3)
PRINTS(cuMemcpyHtoDAsync, 4)
PRINTS(cuMemcpyDtoHAsync, 4)
PRINTS(cuMemcpyPeerAsync, 6)
PRINTS(cuMemcpyDtoDAsync, 4)
PRINTS(cuStreamBeginCapture, 2)
PRINTS(cuGraphDestroy, 1)
PRINTS(cuGraphLaunch, 2)
PRINTS(cuGraphExecDestroy, 1)
GIVES(cuDevicePrimaryCtxRetain, 0x1000)
GIVES(cuStreamCreate, 0x3000)
GIVES(cuEventCreate, 0x4000)
GIVES(cuMemHostAlloc, 0x7000)
GIVES(cuCtxPopCurrent, 0x1000)
GIVES(cuDeviceTotalMem, 1ull << 33)

int cuDriverGetVersion(int *value) { *value = 13000; return 0; }
int cuDeviceGetCount(int *value) { *value = 1; return 0; }
int cuDeviceGetName(char *text, int length, int device) { strncpy(text, "Fake", length); return 0; }
int cuDeviceGetPCIBusId(char *text, int length, int device) { strncpy(text, "0000:01:00.0", length); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = attribute; return 0; }
int cuDeviceCanAccessPeer(int *value, int a, int b) { *value = 1; return 0; }
int cuMemGetInfo(u *left, u *total) { *left = 5; *total = 6; return 0; }

int cuStreamEndCapture(u stream, u *made) {
    printf("cuStreamEndCapture %llx\n", (unsigned long long)stream);
    *made = 0x8000;
    return 0;
}

int cuGraphInstantiateWithFlags(u *made, u graph, u flags) {
    printf("cuGraphInstantiateWithFlags %llx %llu\n", (unsigned long long)graph, (unsigned long long)flags);
    *made = 0x9000;
    return 0;
}

int cuMemPoolCreate(u *made, const int *properties) {
    printf("cuMemPoolCreate %d %d %d\n", properties[0], properties[2], properties[3]);
    *made = 0x2000;
    return 0;
}

int cuMemPoolSetAccess(u pool, const int *access, u count) {
    printf("cuMemPoolSetAccess %llx %d %d %llu\n", (unsigned long long)pool, access[0], access[1], (unsigned long long)count);
    return 0;
}

int cuMemAllocFromPoolAsync(u *made, u nbytes, u pool, u stream) {
    printf("cuMemAllocFromPoolAsync %llu %llx %llx\n", (unsigned long long)nbytes, (unsigned long long)pool, (unsigned long long)stream);
    *made = 0x700000000000;
    return 0;
}

int cuModuleLoadDataEx(u *made, const char *image, unsigned count, void *options, void *values) {
    printf("cuModuleLoadDataEx %s %u\n", image, count);
    *made = 0x5000;
    return 0;
}

int cuModuleGetFunction(u *made, u module, const char *name) {
    printf("cuModuleGetFunction %llx %s\n", (unsigned long long)module, name);
    *made = 0x6000;
    return 0;
}

int cuLaunchKernel(u function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   u stream, void **parameters, void **extra) {
    printf("cuLaunchKernel %llx %u %u %u %u %u %u %u %llx: %llx %g %d %d\n", (unsigned long long)function, gx, gy, gz, bx, by, bz,
           shared, (unsigned long long)stream, *(unsigned long long *)parameters[0], *(float *)parameters[1],
           *(unsigned char *)parameters[2], extra != 0);
    return 0;
}

struct entry { const char *name; void *function; };
#define ENTRY(name) {#name, (void *)name}

int cuGetProcAddress_v2(const char *name, void **found, int version, u flags, int *status);

static const struct entry TABLE[] = {
    ENTRY(cuInit), ENTRY(cuCtxSetCurrent), ENTRY(cuCtxPushCurrent), ENTRY(cuCtxPopCurrent), ENTRY(cuDevicePrimaryCtxRetain),
    ENTRY(cuDevicePrimaryCtxRelease), ENTRY(cuMemPoolCreate), ENTRY(cuMemPoolSetAttribute), ENTRY(cuMemPoolSetAccess),
    ENTRY(cuMemPoolDestroy), ENTRY(cuMemAllocFromPoolAsync), ENTRY(cuMemFreeAsync), ENTRY(cuMemFree), ENTRY(cuMemHostAlloc),
    ENTRY(cuMemFreeHost), ENTRY(cuStreamCreate), ENTRY(cuStreamDestroy), ENTRY(cuStreamWaitEvent), ENTRY(cuEventCreate),
    ENTRY(cuEventDestroy), ENTRY(cuEventRecord), ENTRY(cuEventSynchronize), ENTRY(cuModuleLoadDataEx), ENTRY(cuModuleUnload),
    ENTRY(cuModuleGetFunction), ENTRY(cuFuncSetAttribute), ENTRY(cuLaunchKernel), ENTRY(cuMemcpyHtoDAsync),
    ENTRY(cuMemcpyDtoHAsync), ENTRY(cuMemcpyPeerAsync), ENTRY(cuMemcpyDtoDAsync), ENTRY(cuStreamBeginCapture),
    ENTRY(cuStreamEndCapture), ENTRY(cuGraphInstantiateWithFlags), ENTRY(cuGraphDestroy), ENTRY(cuGraphLaunch),
    ENTRY(cuGraphExecDestroy), ENTRY(cuDriverGetVersion), ENTRY(cuDeviceGetCount),
    ENTRY(cuDeviceGetName), ENTRY(cuDeviceGetPCIBusId), ENTRY(cuDeviceTotalMem), ENTRY(cuDeviceGetAttribute),
    ENTRY(cuDeviceCanAccessPeer), ENTRY(cuMemGetInfo), {"cuGetProcAddress", (void *)cuGetProcAddress_v2},
};

int cuGetProcAddress_v2(const char *name, void **found, int version, u flags, int *status) {
    for (unsigned k = 0; k < sizeof TABLE / sizeof *TABLE; k++)
        if (!strcmp(TABLE[k].name, name)) {
            *found = TABLE[k].function;
            if (status) *status = 0;
            return 0;
        }
    *found = 0;
    if (status) *status = 1;
    return 500; /* CUDA_ERROR_NOT_FOUND */
}

int cuGetProcAddress(const char *name, void **found, int version, u flags) {
    return cuGetProcAddress_v2(name, found, version, flags, 0);
}
