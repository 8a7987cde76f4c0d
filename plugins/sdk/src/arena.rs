//! A bump allocator in a static arena.
//!
//! An instance serves one call and is then discarded, so freeing memory is useless. A call that fits the arena
//! touches a few pages and never grows memory, which makes a new instance several times cheaper than with a
//! general allocator. Allocations that do not fit use the system allocator, which does free them.
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;

/// Size of the arena, in bytes. A `rank` of a dozen candidates takes about 4 KiB; a large response of a provider
/// overflows to the system allocator. With the stack of 32 KiB, five KiB remain in one wasm page for a method's
/// constants. The host clears such a memory after a call without searching for written pages.
const SIZE: usize = 26 << 10;

/// Alignment of the arena, and the largest alignment that it can serve.
const ALIGN: usize = 16;

/// The counter is before the bytes, so that a short call writes to only one page. Every written page is cleared
/// after the call.
#[repr(C)]
struct Arena {
    used: UnsafeCell<usize>,
    bytes: Bytes,
}

#[repr(C, align(16))]
struct Bytes(UnsafeCell<[u8; SIZE]>);

// SAFETY: a core instance of a component has one thread. wasm32 without the threads proposal cannot have more.
unsafe impl Sync for Arena {}

#[global_allocator]
static ARENA: Arena = Arena {
    used: UnsafeCell::new(0),
    bytes: Bytes(UnsafeCell::new([0; SIZE])),
};

impl Arena {
    /// Offset of `pointer` in the arena. `None` if it is outside.
    fn offset(&self, pointer: *mut u8) -> Option<usize> {
        (pointer as usize)
            .checked_sub(self.bytes.0.get() as usize)
            .filter(|offset| *offset < SIZE)
    }
}

// SAFETY: blocks never overlap: each starts at or after the end of the previous one and ends within the arena. A
// block outside of it came from the system allocator and is freed there.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: there is one thread, and nothing below allocates while `used` is borrowed.
        let used = unsafe { &mut *self.used.get() };
        let start = used.next_multiple_of(layout.align());
        match start.checked_add(layout.size()) {
            // An empty block at the very end would be outside according to `offset`.
            Some(end) if end <= SIZE && start < SIZE && layout.align() <= ALIGN => {
                *used = end;
                // SAFETY: `start` is within the arena.
                unsafe { self.bytes.0.get().cast::<u8>().add(start) }
            }
            // SAFETY: the caller's guarantees are passed on.
            _ => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if self.offset(pointer).is_none() {
            // SAFETY: a block outside of the arena came from the system allocator.
            unsafe { System.dealloc(pointer, layout) }
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(start) = self.offset(pointer) else {
            // SAFETY: as in `dealloc`.
            return unsafe { System.realloc(pointer, layout, size) };
        };
        // SAFETY: there is one thread.
        let used = unsafe { &mut *self.used.get() };
        let last = start + layout.size() == *used;
        match start.checked_add(size) {
            // The last block can grow and shrink in place.
            Some(end) if last && end <= SIZE => {
                *used = end;
                return pointer;
            }
            _ if size <= layout.size() => return pointer,
            _ => {}
        }
        // SAFETY: the caller guarantees a valid size. Both blocks have at least the copied size and cannot
        // overlap.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                std::ptr::copy_nonoverlapping(pointer, new, layout.size());
            }
            new
        }
    }
}
