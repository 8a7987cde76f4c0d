//! `kassette plugin keygen` and `sign`: keys and signatures of modules, without a server.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use kassette_files::{Holds, NewFile};
use kassette_runtime::{SecretKey, sign};
use serde_json::json;
use zeroize::Zeroizing;

use super::output::print;
use crate::files::read_regular;

/// Generates a key pair, writes it to two new files, and prints the public key in the format of the configuration.
pub(super) fn keygen(secret_key: &Path, public_key: &Path, json: bool) -> Result<(), String> {
    let key = SecretKey::draw().map_err(|error| error.to_string())?;
    let public = key.public_key();
    let public_bytes = public.to_bytes();
    let files = [
        (secret_key, 0o600, key.as_bytes()),
        (public_key, 0o644, public_bytes.as_slice()),
    ];
    let stands = |path: &Path| {
        let why = "there is a file already; keep it, or name another";
        format!("{}: {why}", path.display())
    };
    // Checked for both files before either is written, because half a key pair is useless.
    if let Some((path, ..)) = files
        .iter()
        .find(|(path, ..)| path.symlink_metadata().is_ok())
    {
        return Err(stands(path));
    }
    for (path, mode, bytes) in files {
        let written = NewFile::beside(path, mode).and_then(|mut file| {
            file.write_all(bytes)?;
            file.keep_new()
        });
        written.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => stands(path),
            _ => format!("{}: {error}", path.display()),
        })?;
    }
    print(&match json {
        true => format!("{}\n", json!({ "public_key": public.to_string() })),
        false => format!("public_key = \"{public}\"\n"),
    })
}

/// Signs a module's file, in place or into another file.
pub(super) fn sign_file(
    path: &Path,
    module: &[u8],
    secret_key: &Path,
    output: Option<PathBuf>,
    json: bool,
) -> Result<(), String> {
    let key = read_key(secret_key)?;
    let signed = sign(module, &key).map_err(|error| format!("{}: {error}", path.display()))?;
    let output = output.unwrap_or_else(|| path.to_owned());
    // Readable by other users, like all modules in the plugin folder.
    kassette_files::write(&output, 0o644, &signed)
        .map_err(|error| format!("{}: {error}", output.display()))?;
    let (output, public) = (output.display().to_string(), key.public_key().to_string());
    print(&match json {
        true => format!("{}\n", json!({ "path": output, "public_key": public })),
        false => format!("{output} is signed by {public}\n"),
    })
}

fn read_key(path: &Path) -> Result<SecretKey, String> {
    let at = |why: &dyn std::fmt::Display| format!("{} {why}", path.display());
    kassette_files::judge(path, Holds::Secret).map_err(|exposed| at(&exposed))?;
    let bytes = read_regular(path).map(Zeroizing::new);
    let bytes = bytes.map_err(|error| at(&format!("cannot be read: {error}")))?;
    SecretKey::from_bytes(&bytes).map_err(|error| at(&error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

    #[test]
    fn a_drawn_key_is_its_user_s_alone_and_takes_no_file_s_place() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        keygen(&at("key"), &at("key.pub"), false).unwrap();
        let mode = std::fs::metadata(at("key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let key = read_key(&at("key")).unwrap();
        let public = std::fs::read(at("key.pub")).unwrap();
        assert_eq!(public, key.public_key().to_bytes());
        for (secret, public) in [("key", "other.pub"), ("other", "key.pub")] {
            let refused = keygen(&at(secret), &at(public), false).unwrap_err();
            assert!(refused.contains("there is a file already"), "{refused}");
        }
        assert!(!at("other").exists() && !at("other.pub").exists());
        assert_eq!(read_key(&at("key")).unwrap().as_bytes(), key.as_bytes());
    }

    #[test]
    fn a_file_is_signed_in_its_place_or_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        keygen(&at("key"), &at("key.pub"), true).unwrap();
        std::fs::write(at("a.wasm"), COMPONENT).unwrap();
        let signed = |output| sign_file(&at("a.wasm"), COMPONENT, &at("key"), output, false);
        signed(Some(at("b.wasm"))).unwrap();
        assert_eq!(std::fs::read(at("a.wasm")).unwrap(), COMPONENT);
        signed(None).unwrap();
        let both = ["a.wasm", "b.wasm"].map(|name| std::fs::read(at(name)).unwrap());
        assert_eq!(both[0], both[1]);
        assert!(both[0].len() > COMPONENT.len());
        let core = sign_file(&at("c.wasm"), b"\0asm\x01\0\0\0", &at("key"), None, false);
        assert!(core.unwrap_err().contains("is not a component"));
        assert!(!at("c.wasm").exists());
    }

    #[test]
    fn a_secret_key_that_others_may_read_signs_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        keygen(&at("key"), &at("key.pub"), false).unwrap();
        std::fs::set_permissions(at("key"), std::fs::Permissions::from_mode(0o644)).unwrap();
        let refused = read_key(&at("key")).unwrap_err();
        assert!(refused.contains("chmod 600"), "{refused}");
        let public = read_key(&at("key.pub")).unwrap_err();
        assert!(!public.is_empty());
    }
}
