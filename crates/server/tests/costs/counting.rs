//! An allocator that counts the allocations of each thread.
//!
//! The only `unsafe` code: the allocator trait requires it, and every call is forwarded unchanged.

#![expect(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNTED: Cell<Memory> = const {
        Cell::new(Memory { allocations: 0, bytes: 0, live: 0, peak: 0 })
    };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The allocations of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) allocations: u64,
    /// All allocated bytes, freed or not.
    pub(crate) bytes: u64,
    /// The bytes that were not freed.
    live: i64,
    /// The peak of these.
    pub(crate) peak: i64,
}

/// Starts counting.
pub(crate) fn start() {
    COUNTED.set(Memory {
        allocations: 0,
        bytes: 0,
        live: 0,
        peak: 0,
    });
}

/// The allocations of this thread since [`start`].
pub(crate) fn counted() -> Memory {
    COUNTED.get()
}

struct Counting;

impl Counting {
    fn taken(size: usize) {
        let mut memory = COUNTED.get();
        memory.allocations += 1;
        memory.bytes += size as u64;
        memory.live += size as i64;
        memory.peak = memory.peak.max(memory.live);
        COUNTED.set(memory);
    }

    fn given_back(size: usize) {
        let mut memory = COUNTED.get();
        memory.live -= size as i64;
        COUNTED.set(memory);
    }
}

// SAFETY: every call goes to the system's allocator unchanged; counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::taken(layout.size());
        // SAFETY: the caller's guarantees are those the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::taken(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::given_back(layout.size());
        Self::taken(size);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Self::given_back(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}
