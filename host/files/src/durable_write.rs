//! Replaces the C library's `sync_file_range` in this program with `fdatasync`.
//!
//! sled 0.34 calls it after each write to its log. It then treats the write as durable and reuses older parts of
//! the log. The kernel's call only makes the disk write the pages: it flushes neither the file length nor the
//! disk's cache. A power failure could therefore destroy data that sled relies on after the old data has been
//! overwritten. With this replacement, sled's assumption holds. Nothing else in the program calls the function.
//!
//! The linker prefers a symbol of the program to the C library's. [`calls`] makes sure that this symbol is linked.
//! When the engine opens a database, it also checks with [`calls`] that sled uses this function.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Device and inode.
type File = (u64, u64);

static CALLS: AtomicU64 = AtomicU64::new(0);
/// Files for which a sync has failed.
static FAILED: Mutex<BTreeSet<File>> = Mutex::new(BTreeSet::new());

/// Number of calls of `sync_file_range` in this process.
pub fn calls() -> u64 {
    let call: extern "C" fn(c_int, i64, i64, c_uint) -> c_int = sync_file_range;
    std::hint::black_box(call);
    CALLS.load(Ordering::SeqCst)
}

/// Lets a file be synced again after a failure. Call it after the file was closed, when reads come from the disk.
///
/// # Errors Fails if the file's identity cannot be read.
pub fn trust(file: impl AsFd) -> io::Result<()> {
    let file = identity(file.as_fd())?;
    failed().remove(&file);
    Ok(())
}

/// Makes each sync of a file fail until [`trust`] is called, as after a failed sync.
///
/// # Errors Fails if the file's identity cannot be read.
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

/// Syncs a file. After a failure, every sync of the file fails until [`trust`] is called: the kernel reports a
/// failure only once for each descriptor and then treats the pages as written.
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

/// The C interface: returns 0, or -1 and sets `errno`. Syncs the whole file, which includes the range.
#[expect(
    unsafe_code,
    reason = "a symbol that replaces the C library's, called with a bare descriptor"
)]
#[unsafe(no_mangle)]
extern "C" fn sync_file_range(file: c_int, _offset: i64, _bytes: i64, _flags: c_uint) -> c_int {
    if file < 0 {
        return answer(Err(rustix::io::Errno::BADF));
    }
    // SAFETY: the descriptor is not negative, and the caller keeps it open during the call.
    answer(sync(unsafe { BorrowedFd::borrow_raw(file) }))
}

#[expect(unsafe_code, reason = "the C library keeps `errno`")]
fn answer(synced: rustix::io::Result<()>) -> c_int {
    let Err(error) = synced else { return 0 };
    // SAFETY: the pointer is valid as long as this thread lives.
    unsafe { *libc::__errno_location() = error.raw_os_error() };
    -1
}

#[cfg(test)]
mod tests {
    use std::io::Error;
    use std::os::fd::AsRawFd as _;

    use super::*;

    /// Calls the function as sled does.
    #[expect(unsafe_code, reason = "the C library's declaration")]
    fn called(file: c_int) -> Result<(), Option<i32>> {
        // SAFETY: the function takes no pointer.
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
