//! Slots that require signed modules: uploads by operators, files in the folder, restarts.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::Server;
use crate::swap::{label, put, slot, swapped};
use crate::uploads::upload;

const IDEAL: &str = "method.ideal";

fn kassette(arguments: &[&str]) -> Output {
    let mut kassette = Command::new(env!("CARGO_BIN_EXE_kassette"));
    kassette.arg("plugin").args(arguments).output().unwrap()
}

/// A signing key: a folder with the secret key file, and the public key as the configuration contains it.
pub(crate) struct Key {
    folder: tempfile::TempDir,
    public: String,
}

impl Key {
    pub(crate) fn draw() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (secret, public) = (at("key"), at("key.pub"));
        let arguments = ["keygen", "--secret-key", &secret, "--public-key", &public];
        let drawn = kassette(&[&arguments[..], &["--json"]].concat());
        assert!(drawn.status.success(), "{drawn:?}");
        let told: Value = serde_json::from_slice(&drawn.stdout).unwrap();
        let public = told["public_key"].as_str().unwrap().to_owned();
        // Creating a key never overwrites a file.
        assert_eq!(kassette(&arguments).status.code(), Some(1));
        Self { folder, public }
    }

    fn secret(&self) -> PathBuf {
        self.folder.path().join("key")
    }

    /// Signs a module with the command and returns the signed bytes.
    pub(crate) fn signed(&self, module: &Path) -> Vec<u8> {
        let output = self.folder.path().join("signed.wasm");
        let mut sign = Command::new(env!("CARGO_BIN_EXE_kassette"));
        sign.args(["plugin", "sign"]).arg(module);
        sign.arg("--secret-key").arg(self.secret());
        let signed = sign.arg("-o").arg(&output).output().unwrap();
        assert!(signed.status.success(), "{signed:?}");
        std::fs::read(&output).unwrap()
    }

    /// Configuration entry that makes these slots require a signature by this key.
    pub(crate) fn for_slots(&self, slots: &str) -> String {
        let public = &self.public;
        format!("[[plugins.keys]]\nslots = \"{slots}\"\npublic_key = \"{public}\"\n")
    }
}

/// Reason why the slot refused the last offered module. `None` if it was accepted.
async fn last_error(server: &Server) -> Option<String> {
    let slot = slot(server, IDEAL).await;
    slot["last_error"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn a_slot_with_a_key_takes_signed_modules_alone_however_they_come() {
    let (release, other) = (Key::draw(), Key::draw());
    let keys = [release.for_slots(IDEAL), other.for_slots("provider.stripe")];
    // The unsigned module in the folder is refused at the start.
    let server = Server::configured(&keys.concat()).await;
    let found = slot(&server, IDEAL).await;
    assert_eq!(found["state"], "failed", "{found}");
    assert_eq!(label(&server, "49.90").await, None);
    assert!(last_error(&server).await.unwrap().contains("no signature"));

    let module = swapped().await;
    let unsigned = std::fs::read(module).unwrap();
    let signed = release.signed(module);
    let mut changed = signed.clone();
    *changed.last_mut().unwrap() ^= 1;
    let bad = [
        (unsigned, "has no signature"),
        (Key::draw().signed(module), "by none of the keys"),
        (other.signed(module), "names for provider.stripe and not"),
        (signed[..signed.len() - 100].to_vec(), "cut off"),
        (changed, "changed"),
    ];
    for (file, said) in &bad {
        let refused = upload(&server, IDEAL, "", file.clone()).await.expect(422);
        let why = refused.error();
        assert!(why.contains(said), "{why}");
        assert!(why.contains("kassette plugin sign"), "{why}");
    }
    let uploaded = upload(&server, IDEAL, "", signed.clone())
        .await
        .expect(200)
        .json();
    assert_eq!(uploaded["active"]["version"], "9.9.9");
    let serves = Some("iDEAL, swapped".to_owned());
    assert_eq!(label(&server, "49.90").await, serves);
    assert_eq!(last_error(&server).await, None);

    // Files in the folder are checked like uploads, and the active version continues.
    for (file, said) in &bad {
        put(&server, IDEAL, file);
        let told = async || last_error(&server).await.filter(|why| why.contains(said));
        server.wait_for(said, told).await;
        assert_eq!(label(&server, "49.90").await, serves);
    }
    // Files are also checked at a start: the previous version is activated.
    let server = Server::in_folder(server.stop().await).await;
    assert_eq!(
        slot(&server, IDEAL).await["active"]["digest"],
        uploaded["active"]["digest"]
    );
    assert!(last_error(&server).await.unwrap().contains("changed"));
    put(&server, IDEAL, &signed);
    let taken = async || last_error(&server).await.is_none().then_some(());
    server.wait_for("the signed file", taken).await;
    assert_eq!(label(&server, "49.90").await, serves);
}
