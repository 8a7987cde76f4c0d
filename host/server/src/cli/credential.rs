//! Tokens and keys from the environment or a file; never from the command line, which every user of the machine can
//! read.

use std::path::Path;

use kassette_domain::secret::Secret;

/// Maximum size of a file with a token or key, in bytes.
const MAX_BYTES: u64 = 4096;

/// Reads a credential from a file, or else from an environment variable. `None` if there is none.
///
/// # Errors
/// If the file cannot be read, is too large, or can be read by others.
pub(super) fn credential(variable: &str, file: Option<&Path>) -> Result<Option<Secret>, String> {
    let text = match file {
        None => std::env::var(variable).ok(),
        Some(path) => {
            let failed = |error: std::io::Error| format!("{}: {error}", path.display());
            if std::fs::metadata(path).map_err(failed)?.len() > MAX_BYTES {
                return Err(format!("{}: is too large for a token", path.display()));
            }
            kassette_files::judge(path, kassette_files::Holds::Secret)
                .map_err(|exposed| format!("{} {exposed}", path.display()))?;
            Some(std::fs::read_to_string(path).map_err(failed)?)
        }
    };
    let found = text.map(|text| Secret::new(text.trim()));
    Ok(found.filter(|found| !found.expose().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_in_a_file_that_others_may_read_or_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "ko_x\n").unwrap();
        let read = |mode| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            credential("", Some(&file))
        };
        assert_eq!(read(0o600).unwrap(), Some(Secret::new("ko_x")));
        assert!(read(0o644).unwrap_err().contains("chmod 600"));
        assert!(read(0o620).unwrap_err().contains("chmod go-w"));
    }
}
