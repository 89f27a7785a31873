// What the headers under cuda/ have in common: scopes, orders, and the names of C++'s library as cuda::std has
// them. Written from libcu++'s public documentation. The simulator does not tell scopes apart.
#pragma once

namespace cuda {
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
namespace std {
using namespace ::std;
enum memory_order { memory_order_relaxed, memory_order_consume, memory_order_acquire, memory_order_release,
    memory_order_acq_rel, memory_order_seq_cst };
}
using std::memory_order; using std::memory_order_relaxed; using std::memory_order_consume;
using std::memory_order_acquire; using std::memory_order_release; using std::memory_order_acq_rel;
using std::memory_order_seq_cst;
}
