//! Converts core modules to components.
use crate::BuildError;
use std::fs;
use std::path::Path;
use wit_component::ComponentEncoder;

/// Makes a component from a core module that carries its WIT in custom sections.
pub(crate) fn encode(package: &str, module: &[u8]) -> Result<Vec<u8>, BuildError> {
    let fault = |error: &dyn std::fmt::Display| BuildError::Component {
        package: package.to_owned(),
        reason: error.to_string(),
    };
    let mut encoder = ComponentEncoder::default();
    encoder
        .validate(true)
        .module(module)
        .map_err(|error| fault(&format_args!("{error:#}")))?
        .encode()
        .map_err(|error| fault(&format_args!("{error:#}")))
}

/// Writes a file atomically. Returns false, and does not touch the file, if it already has these bytes, so that
/// folder watchers see no change.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<bool, BuildError> {
    if fs::read(path).is_ok_and(|present| present == bytes) {
        return Ok(false);
    }
    kassette_files::write(path, 0o644, bytes).map_err(BuildError::io("write", path))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_are_not_written_again_and_nothing_is_left_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("method.ideal.wasm");
        assert!(write(&path, b"one").unwrap());
        assert!(!write(&path, b"one").unwrap());
        assert!(write(&path, b"two").unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_module_is_not_written_into_what_another_user_planted() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a.wasm"), folder.path().join("other"));
        fs::write(&other, "another's").unwrap();
        let aside = format!("a.wasm.part{}", std::process::id());
        std::os::unix::fs::symlink(&other, folder.path().join(aside)).unwrap();
        write(&path, b"ours").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"ours");
        assert_eq!(fs::read(&other).unwrap(), b"another's");
    }

    #[test]
    fn what_is_no_module_is_refused_by_package() {
        let error = encode("kassette-method-ideal", b"not wasm").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("kassette-method-ideal cannot be made a component: ")
        );
    }
}
