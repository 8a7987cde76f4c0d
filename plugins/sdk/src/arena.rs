//! A bump allocator over a static arena.
//!
//! An instance serves one call and is thrown away, so freeing buys nothing. A call that fits the
//! arena touches a few pages and never grows memory, which makes a fresh instance several times
//! cheaper than with a general allocator. What does not fit comes from the system allocator, which
//! does free.
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;

/// A `rank` over a dozen candidates takes about 4 KiB, a large provider answer overflows to the
/// system allocator. With the stack of 32 KiB it leaves a method five KiB of its own constants in one
/// wasm page: the host clears such a memory after a call without looking for what was written.
const SIZE: usize = 26 << 10;

/// Alignment of the arena's first byte, and so the largest that it can serve.
const ALIGN: usize = 16;

/// The count stands before the bytes: a short call then dirties one page with both, and every dirty
/// page is cleared after the call.
#[repr(C)]
struct Arena {
    used: UnsafeCell<usize>,
    bytes: Bytes,
}

#[repr(C, align(16))]
struct Bytes(UnsafeCell<[u8; SIZE]>);

// SAFETY: a core instance of a component has one thread; wasm32 without the threads proposal
// cannot have another.
unsafe impl Sync for Arena {}

#[global_allocator]
static ARENA: Arena = Arena {
    used: UnsafeCell::new(0),
    bytes: Bytes(UnsafeCell::new([0; SIZE])),
};

impl Arena {
    /// Offset of `pointer` in the arena, where it lies in it.
    fn offset(&self, pointer: *mut u8) -> Option<usize> {
        (pointer as usize)
            .checked_sub(self.bytes.0.get() as usize)
            .filter(|offset| *offset < SIZE)
    }
}

// SAFETY: blocks never overlap: each starts at or after the end of the one before and ends within
// the arena; a block outside of it was given by the system allocator and goes back there.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: one thread, and nothing below allocates while `used` is borrowed.
        let used = unsafe { &mut *self.used.get() };
        let start = used.next_multiple_of(layout.align());
        match start.checked_add(layout.size()) {
            // a block of no bytes at the very end would lie outside, where `offset` denies it
            Some(end) if end <= SIZE && start < SIZE && layout.align() <= ALIGN => {
                *used = end;
                // SAFETY: `start` is within the arena.
                unsafe { self.bytes.0.get().cast::<u8>().add(start) }
            }
            // SAFETY: the caller's promises are passed on.
            _ => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if self.offset(pointer).is_none() {
            // SAFETY: what lies outside of the arena came from the system allocator.
            unsafe { System.dealloc(pointer, layout) }
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some(start) = self.offset(pointer) else {
            // SAFETY: as in `dealloc`.
            return unsafe { System.realloc(pointer, layout, size) };
        };
        // SAFETY: one thread.
        let used = unsafe { &mut *self.used.get() };
        let last = start + layout.size() == *used;
        match start.checked_add(size) {
            // the last block grows and shrinks in place
            Some(end) if last && end <= SIZE => {
                *used = end;
                return pointer;
            }
            _ if size <= layout.size() => return pointer,
            _ => {}
        }
        // SAFETY: the caller promises a valid size; both blocks hold the bytes copied and cannot
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
