//! Replaces the C library's `sync_file_range` in this program by an `fdatasync`.
//!
//! sled 0.34 calls it after each write of its log, then takes what it wrote for safe and uses older parts
//! of the log anew. The kernel's own call asks the disk for the pages alone: neither the file's length nor
//! the disk's cache is written, so a power cut can take what sled relies on after what it replaced is
//! gone. With this one sled's rule holds as it was meant. Nothing else in the program calls it.
//!
//! The linker takes a program's own symbol before that of the C library, which [`calls`] makes sure is in
//! the program; and the store sees with it, where it opens a database, that sled came by.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Device and inode.
type File = (u64, u64);

static CALLS: AtomicU64 = AtomicU64::new(0);
/// Files of which a sync has failed.
static FAILED: Mutex<BTreeSet<File>> = Mutex::new(BTreeSet::new());

/// How often it was called in this process.
pub fn calls() -> u64 {
    let call: extern "C" fn(c_int, i64, i64, c_uint) -> c_int = sync_file_range;
    std::hint::black_box(call);
    CALLS.load(Ordering::SeqCst)
}

/// Lets syncs of a file that has failed count again: it was closed, and what is read of it comes from
/// the disk.
///
/// # Errors
/// Where the file cannot be asked which one it is.
pub fn trust(file: impl AsFd) -> io::Result<()> {
    let file = identity(file.as_fd())?;
    failed().remove(&file);
    Ok(())
}

/// Lets each sync of a file fail until it is [trusted](trust), as if one had failed.
///
/// # Errors
/// Where the file cannot be asked which one it is.
pub fn distrust(file: impl AsFd) -> io::Result<()> {
    let file = identity(file.as_fd())?;
    failed().insert(file);
    Ok(())
}

fn failed() -> MutexGuard<'static, BTreeSet<File>> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn identity(file: BorrowedFd<'_>) -> rustix::io::Result<File> {
    let stat = rustix::fs::fstat(file)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Where a sync failed, the kernel tells one caller of a descriptor and none after it, and marks the pages
/// as written all the same. So from then on each sync of the file fails, until it is [trusted](trust).
fn sync(file: BorrowedFd<'_>) -> rustix::io::Result<()> {
    CALLS.fetch_add(1, Ordering::SeqCst);
    let identity = identity(file)?;
    let mut failed = failed();
    if failed.contains(&identity) {
        return Err(rustix::io::Errno::IO);
    }
    rustix::fs::fdatasync(file).inspect_err(|_| {
        failed.insert(identity);
    })
}

/// As C has it: 0, or -1 and `errno`. The range is part of the file.
#[expect(
    unsafe_code,
    reason = "a symbol that replaces the C library's, called with a bare descriptor"
)]
#[unsafe(no_mangle)]
extern "C" fn sync_file_range(file: c_int, _offset: i64, _bytes: i64, _flags: c_uint) -> c_int {
    if file < 0 {
        return answer(Err(rustix::io::Errno::BADF));
    }
    // SAFETY: not negative, and the caller holds it open for as long as the call lasts.
    answer(sync(unsafe { BorrowedFd::borrow_raw(file) }))
}

#[expect(unsafe_code, reason = "the C library keeps `errno`")]
fn answer(synced: rustix::io::Result<()>) -> c_int {
    let Err(error) = synced else { return 0 };
    // SAFETY: it points to the thread's own, for as long as the thread lives.
    unsafe { *libc::__errno_location() = error.raw_os_error() };
    -1
}

#[cfg(test)]
mod tests {
    use std::io::Error;
    use std::os::fd::AsRawFd as _;

    use super::*;

    /// As sled calls it.
    #[expect(unsafe_code, reason = "the C library's declaration")]
    fn called(file: c_int) -> Result<(), Option<i32>> {
        // SAFETY: it takes no pointer.
        match unsafe { libc::sync_file_range(file, 0, 0, 0) } {
            0 => Ok(()),
            _ => Err(Error::last_os_error().raw_os_error()),
        }
    }

    #[test]
    fn it_stands_in_for_the_c_library_s_and_answers_as_that_does() {
        let before = calls();
        let file = tempfile::tempfile().unwrap();
        assert_eq!(called(file.as_raw_fd()), Ok(()));
        assert!(calls() > before);
        assert_eq!(called(-1), Err(Some(libc::EBADF)));
        let (_, pipe) = io::pipe().unwrap();
        assert_eq!(called(pipe.as_raw_fd()), Err(Some(libc::EINVAL)));
    }

    #[test]
    fn a_sync_that_failed_is_not_made_good_by_the_next_one() {
        let (_, pipe) = io::pipe().unwrap();
        assert_eq!(called(pipe.as_raw_fd()), Err(Some(libc::EINVAL)));
        assert_eq!(called(pipe.as_raw_fd()), Err(Some(libc::EIO)));
        trust(&pipe).unwrap();
        assert_eq!(called(pipe.as_raw_fd()), Err(Some(libc::EINVAL)));
        let file = tempfile::tempfile().unwrap();
        assert_eq!(called(file.as_raw_fd()), Ok(()));
        distrust(&file).unwrap();
        assert_eq!(called(file.as_raw_fd()), Err(Some(libc::EIO)));
        trust(&file).unwrap();
        assert_eq!(called(file.as_raw_fd()), Ok(()));
    }
}
