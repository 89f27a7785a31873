// Blocks of a cluster that read each other's shared memory. With CLUSTERED of 0 a block is alone, and GPUs before Hopper
// run the kernel, too.
#if CLUSTERED
#define CLUSTER_ARRIVE asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
#define CLUSTER_WAIT asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#define CLUSTER_SYNC CLUSTER_ARRIVE CLUSTER_WAIT
static __device__ inline unsigned address_in(const void* p, int block) {  // of p in the shared memory of that block
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(p)), "r"(block));
    return there;
}
static __device__ inline float load_remote(const float* p, int block) {
    float x;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(address_in(p, block)) : "memory");
    return x;
}
static __device__ inline float4 load_remote(const float4* p, int block) {
    float4 x;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w) : "r"(address_in(p, block)) : "memory");
    return x;
}
#else
#undef __cluster_dims__
#define __cluster_dims__(...)
#endif
