//! Sources of the master key: the environment, a private file, or under `dev` a generated file.

use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kassette_domain::secret::Secret;
use kassette_files::{Exposed, Holds};
use zeroize::Zeroizing;

/// Environment variable. Takes precedence over the file.
const VARIABLE: &str = "KASSETTE_MASTER_KEY";

/// Reason why the master key is not available.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MasterKeyError {
    /// Neither the variable nor the file is set.
    #[error(
        "no master key: set {VARIABLE}, or master_key_file in kassette.toml, to 32 random bytes in base64 (openssl rand -base64 32)"
    )]
    Missing,
    /// The file cannot be read, or, under `dev`, not be written.
    #[error("cannot read the master key from {path}: {source}")]
    File { path: String, source: io::Error },
    /// Other users can read or write the file.
    #[error("the master key file {path} {source}")]
    Exposed {
        path: String,
        /// The permissions that other users have.
        source: Exposed,
    },
    /// The operating system provides no random bytes.
    #[error("no randomness from the operating system: {0}")]
    Random(#[from] getrandom::Error),
}

/// Returns the text of the key: 32 bytes in base64. The store checks the format.
///
/// # Errors
/// If no key is configured or it cannot be read safely.
pub(crate) fn read(file: Option<&Path>) -> Result<Secret, MasterKeyError> {
    given(VARIABLE, file)?.ok_or(MasterKeyError::Missing)
}

/// Text of a key from an environment variable, or else from a file. `None` if neither is set.
///
/// # Errors
/// If the file cannot be read safely.
pub(crate) fn given(variable: &str, file: Option<&Path>) -> Result<Option<Secret>, MasterKeyError> {
    if let Ok(text) = std::env::var(variable) {
        return Ok(Some(Secret::new(text.trim())));
    }
    file.map(read_file).transpose()
}

fn read_file(path: &Path) -> Result<Secret, MasterKeyError> {
    let failed = |source| MasterKeyError::File {
        path: path.display().to_string(),
        source,
    };
    kassette_files::judge(path, Holds::Secret).map_err(|source| MasterKeyError::Exposed {
        path: path.display().to_string(),
        source,
    })?;
    let text = Zeroizing::new(std::fs::read_to_string(path).map_err(failed)?);
    Ok(Secret::new(text.trim()))
}

/// Reads the key of `dev`. Generates the file if it does not exist.
///
/// # Errors
/// As [`read`], and if the file cannot be generated.
pub(crate) fn read_or_draw(path: &Path) -> Result<Secret, MasterKeyError> {
    if !path.exists() {
        let mut bytes = Zeroizing::new([0_u8; 32]);
        getrandom::fill(bytes.as_mut())?;
        let text = Zeroizing::new(STANDARD.encode(bytes.as_ref()));
        kassette_files::write(path, 0o600, text.as_bytes()).map_err(|source| {
            MasterKeyError::File {
                path: path.display().to_string(),
                source,
            }
        })?;
    }
    read(Some(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        let drawn = read_or_draw(&path).unwrap();
        assert_eq!(drawn, read_or_draw(&path).unwrap(), "it is drawn once");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let refused = read(Some(&path)).unwrap_err();
        assert!(
            matches!(refused, MasterKeyError::Exposed { .. }),
            "{refused}"
        );
    }
}
