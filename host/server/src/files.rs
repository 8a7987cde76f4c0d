//! The gateway's own folders, and files that operators name.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Checks that a path is a writable folder, or can be created as one.
///
/// # Errors
/// A sentence with the reason.
pub(crate) fn can_be_a_folder(path: &Path) -> Result<(), String> {
    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
    let there = path.ancestors().find(|folder| folder.exists());
    let there = there.unwrap_or(Path::new("/"));
    if !there.is_dir() {
        return Err(format!("{} is no folder", there.display()));
    }
    let wanted = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(there, wanted)
        .map_err(|_| format!("{} cannot be written to by this user", there.display()))
}

/// Creates a folder with mode 0700, and its missing parents.
///
/// # Errors
/// Errors of the file system.
pub(crate) fn make_private_folder(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

/// Opens a regular file. Opening a pipe would block, and reading a device may never end.
///
/// # Errors
/// Errors of the file system, or if the path is not a regular file.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    File::open(path)
}

/// Reads a regular file.
///
/// # Errors
/// See [`open_regular`].
pub(crate) fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev::Credentials;
    use crate::master_key;
    use crate::ready::{Ready, ReadyStore};
    use crate::simulators::SharedSecrets;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_pipe_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("module.wasm");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let refused = read_regular(&pipe).unwrap_err();
        assert_eq!(refused.to_string(), "is not a regular file");
        assert!(read_regular(folder.path()).is_err());
    }

    #[test]
    fn no_secret_is_written_through_what_another_user_planted() {
        let ready = Ready {
            base_url: String::new(),
            admin_url: String::new(),
            listen: String::new(),
            operator_token: Some("ko_secret".into()),
            plugin_dir: String::new(),
            merchants: Vec::new(),
            resellers: Vec::new(),
            nodes: Vec::new(),
            store: ReadyStore::from_url(None),
        };
        type Write<'a> = Box<dyn Fn(&Path) + 'a>;
        let writes: [(&str, Write<'_>); 4] = [
            ("ready.json", Box::new(|path| ready.write(path).unwrap())),
            (
                "master.key",
                Box::new(|path| drop(master_key::read_or_draw(path).unwrap())),
            ),
            (
                "dev-credentials.json",
                Box::new(|path| drop(Credentials::load(path.parent().unwrap(), &[]).unwrap())),
            ),
            (
                "secrets.json",
                Box::new(|path| drop(SharedSecrets::read_or_draw(path).unwrap())),
            ),
        ];
        for (name, write) in writes {
            let folder = tempfile::tempdir().unwrap();
            let (path, other) = (folder.path().join(name), folder.path().join("other"));
            let open = std::fs::Permissions::from_mode(0o666);
            std::fs::write(&other, "another's").unwrap();
            std::fs::set_permissions(&other, open.clone()).unwrap();
            // Name of the temporary file in an earlier version, which was predictable.
            let aside = folder
                .path()
                .join(format!(".{name}.{}", std::process::id()));
            symlink(&other, aside).unwrap();
            write(&path);
            let found = std::fs::symlink_metadata(&path).unwrap();
            assert!(found.is_file(), "{name}");
            assert_eq!(found.permissions().mode() & 0o777, 0o600, "{name}");
            assert_eq!(std::fs::read(&other).unwrap(), b"another's", "{name}");
        }
        // A file that is always overwritten.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ready.json");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        ready.write(&path).unwrap();
        let found = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_in_the_way_of_a_folder_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data");
        can_be_a_folder(&file.join("below")).unwrap();
        std::fs::write(&file, "").unwrap();
        for path in [&file, &file.join("below")] {
            assert!(can_be_a_folder(path).unwrap_err().contains("is no folder"));
        }
    }
}
