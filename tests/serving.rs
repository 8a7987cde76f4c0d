//! Runs `kassette serve` as in production, on a separate folder, for benchmarks and end-to-end tests.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use serde_json::Value;

/// A command of the binary that was built with this test, with the configuration of a folder.
pub(crate) fn kassette(folder: &Path, command: &str) -> Command {
    let mut kassette = Command::new(env!("CARGO_BIN_EXE_kassette"));
    kassette
        .args(command.split(' '))
        .arg("--config")
        .arg(config(folder))
        .env_remove("RUST_LOG")
        .env_remove("KASSETTE_MASTER_KEY")
        .env_remove("KASSETTE_OPERATOR_TOKEN")
        .env_remove("KASSETTE_ADMIN_URL");
    kassette
}

fn config(folder: &Path) -> PathBuf {
    folder.join("config")
}

/// Writes configuration, master key and modules. `settings` are lines of `kassette.toml`.
pub(crate) fn prepare(folder: &Path, settings: &str) {
    let private = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let plugins = folder.join("plugins");
    for made in [config(folder), plugins.clone()] {
        std::fs::create_dir(&made).unwrap();
        private(&made, 0o700);
    }
    for guest in kassette_build::guests_with(&["sandbox"]) {
        std::fs::copy(&guest.path, plugins.join(format!("{}.wasm", guest.slot))).unwrap();
    }
    let mut key = [0; 32];
    getrandom::fill(&mut key).unwrap();
    let key = base64::engine::general_purpose::STANDARD.encode(key);
    let key_file = folder.join("master.key");
    std::fs::write(&key_file, key).unwrap();
    private(&key_file, 0o600);
    let main = format!(
        "public_url = \"https://pay.example\"\nlisten = \"127.0.0.1:0\"\n\
         admin_listen = \"127.0.0.1:0\"\ndata_dir = \"../data\"\nplugin_dir = \"../plugins\"\n\
         master_key_file = \"../master.key\"\n{settings}\n"
    );
    std::fs::write(config(folder).join("kassette.toml"), main).unwrap();
}

/// Creates the first operator and returns its token.
pub(crate) fn operator(folder: &Path) -> String {
    let made = kassette(folder, "operator create --json --name root --role admin")
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    made["token"].as_str().unwrap().to_owned()
}
