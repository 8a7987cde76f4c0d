//! Lock that allows one build at a time per workspace, across processes.
use crate::BuildError;
use std::fs::{File, TryLockError};
use std::path::Path;

/// Held during a build. The operating system releases it when the process ends, even after a crash.
pub(crate) struct BuildLock {
    _file: File,
}

impl BuildLock {
    /// Waits for the lock of the folder. Calls `waiting` once if another build holds it.
    pub(crate) fn take(folder: &Path, waiting: impl FnOnce()) -> Result<Self, BuildError> {
        std::fs::create_dir_all(folder).map_err(BuildError::io("create", folder))?;
        let path = folder.join(".kassette-build.lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(BuildError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                waiting();
                file.lock().map_err(BuildError::io("lock", &path))?;
            }
            Err(TryLockError::Error(source)) => return Err(BuildError::io("lock", &path)(source)),
        }
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_second_build_waits_for_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let first = BuildLock::take(folder.path(), || panic!("no other build holds it")).unwrap();
        let (tell, told) = mpsc::channel();
        let path = folder.path().to_owned();
        let second = std::thread::spawn(move || {
            let tell_again = tell.clone();
            let lock = BuildLock::take(&path, move || tell_again.send("waiting").unwrap());
            tell.send("taken").unwrap();
            lock.is_ok()
        });
        assert_eq!(told.recv(), Ok("waiting"));
        assert!(told.try_recv().is_err());
        drop(first);
        assert_eq!(told.recv(), Ok("taken"));
        assert!(second.join().unwrap());
    }
}
