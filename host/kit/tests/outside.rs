//! Test from the view of an external developer, who writes a module with only the packaged SDK and runs it like a
//! server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::allow_attributes,
    reason = "a test that cannot go on fails"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kassette_build::Builder;
use kassette_kit::{Ground, Harness, ModuleClass, check, question};

fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap().to_owned()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

/// Packages the SDK and unpacks it in another folder, as a registry would deliver it.
fn unpacked(aside: &Path) -> PathBuf {
    run(Command::new(env!("CARGO"))
        .args([
            "package",
            "-p",
            "kassette-plugin",
            "--no-verify",
            "--offline",
        ])
        // Developers of the SDK run this test before they commit.
        .args(["--allow-dirty", "--quiet", "--target-dir"])
        .arg(aside)
        .current_dir(root()));
    let packages = fs::read_dir(aside.join("package")).unwrap();
    let package = packages
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "crate"))
        .expect("a packaged crate");
    run(Command::new("tar")
        .arg("xzf")
        .arg(&package)
        .arg("-C")
        .arg(aside));
    aside.join(package.file_stem().unwrap())
}

/// The first example module in the contract's documentation.
fn example(sdk: &Path) -> String {
    let page = fs::read_to_string(sdk.join("wit/README.md")).unwrap();
    let (_, rest) = page.split_once("```rust\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_packaged_sdk_carries_the_contract_unchanged() {
    let names = |folder: &Path| {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let (original, copy) = (root().join("wit"), root().join("plugins/sdk/wit"));
    assert_eq!(names(&copy), names(&original));
    for name in names(&original) {
        let same = fs::read(copy.join(&name)).unwrap() == fs::read(original.join(&name)).unwrap();
        assert!(
            same,
            "plugins/sdk/wit/{} is to be a copy of wit/",
            name.display()
        );
    }
}

#[test]
fn a_module_written_outside_against_the_package_passes_every_check() {
    let aside = tempfile::tempdir().unwrap();
    let sdk = unpacked(aside.path());
    let own = aside.path().join("interac");
    fs::create_dir_all(own.join("src")).unwrap();
    fs::write(own.join("src/lib.rs"), example(&sdk)).unwrap();
    fs::write(
        own.join("Cargo.toml"),
        format!(
            r#"[package]
name = "kassette-method-interac"
version = "1.2.3"
edition = "2024"

[lib]
crate-type = ["cdylib", "rlib"]

[dependencies]
kassette-plugin = {{ path = {sdk:?} }}
"#
        ),
    )
    .unwrap();
    // Pins the available versions, so that nothing is downloaded.
    fs::copy(root().join("Cargo.lock"), own.join("Cargo.lock")).unwrap();
    // Shares compiled dependencies with our own modules.
    let ours = kassette_build::guests().first().unwrap();
    let target = ours.path.ancestors().nth(2).unwrap();
    let built = Builder::new(&own)
        .target_dir(target)
        .out_dir(aside.path().join("built"))
        .build(&["kassette-method-interac"], &mut |_| {})
        .unwrap();
    let path = &built.first().unwrap().path;

    let harness = Harness::new().unwrap();
    let interac = harness.method(path).unwrap();
    assert_eq!(interac.class(), ModuleClass::Native);
    assert_eq!(interac.description().version, "1.2.3");
    let verdicts = interac
        .rank(&question("CAD", Some("49.90"), &["b", "a"]))
        .unwrap()
        .unwrap();
    let ids: Vec<_> = verdicts.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
    let dear = interac.rank(&question("CAD", Some("10000.01"), &["a"]));
    assert_eq!(dear.unwrap().unwrap_err().ground, Ground::Amount);

    let report = check(
        &harness,
        &fs::read(path).unwrap(),
        Some("method.interac.wasm"),
    );
    assert!(report.passed, "{report:#?}");
}
