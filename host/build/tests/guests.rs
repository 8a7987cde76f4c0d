//! Builds every guest of the workspace.
#![cfg(test)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use kassette_build::{BuildError, Builder, Built, Progress, guest, guests};
use std::fs;
use std::path::Path;
use wit_component::DecodedWasm;

/// Names of the interfaces that a component imports and exports.
fn interfaces(built: &Built) -> (Vec<String>, Vec<String>) {
    let bytes = fs::read(&built.path).unwrap();
    let DecodedWasm::Component(resolve, world) = wit_component::decode(&bytes).unwrap() else {
        panic!("{} is no component", built.slot);
    };
    let world = &resolve.worlds[world];
    let names = |items: Vec<_>| items.into_iter().map(|key| resolve.name_world_key(key));
    let imports = names(world.imports.keys().collect()).collect();
    let exports = names(world.exports.keys().collect()).collect();
    (imports, exports)
}

#[test]
fn every_guest_becomes_a_component_named_after_its_slot() {
    assert!(guests().len() >= 10, "{} guests", guests().len());
    for built in guests() {
        let name = built.path.file_name().unwrap().to_str().unwrap();
        assert_eq!(name, format!("{}.wasm", built.slot));
        let bytes = fs::metadata(&built.path).unwrap().len();
        assert_eq!(bytes, built.bytes as u64, "{}", built.slot);
    }
}

/// Checks that the guest imports only interfaces of its world, and exports all that the host calls.
fn fits_its_world(built: &Built) {
    let (imports, exports) = interfaces(built);
    let (allowed, wanted): (&[&str], &[&str]) = if built.slot.starts_with("method.") {
        (&["types", "log"], &["routing"])
    } else {
        (
            &["types", "log", "http", "secrets"],
            &["payments", "refunds"],
        )
    };
    for import in &imports {
        let known = allowed
            .iter()
            .any(|name| *import == format!("kassette:plugin/{name}@0.2.0"));
        assert!(known, "{} imports {import}", built.slot);
    }
    let wanted: Vec<_> = wanted
        .iter()
        .map(|name| format!("kassette:plugin/{name}@0.2.0"))
        .collect();
    assert_eq!(exports, wanted, "{}", built.slot);
}

#[test]
fn guests_fit_their_worlds() {
    for built in guests() {
        fits_its_world(built);
    }
}

/// A sample of guests, to test a slow toolchain (see `KASSETTE_GUEST_TOOLCHAIN`).
#[test]
fn a_method_and_a_provider_fit_their_worlds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let packages = ["kassette-method-ideal", "kassette-provider-mollie"];
    let built = Builder::new(root.unwrap()).build(&packages, &mut |_| {});
    for built in built.unwrap() {
        fits_its_world(&built);
    }
}

#[test]
fn a_guest_names_no_path_of_this_machine() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let root = root.unwrap().to_str().unwrap().as_bytes().to_vec();
    for built in guests() {
        let bytes = fs::read(&built.path).unwrap();
        let found = bytes.windows(root.len()).any(|window| window == root);
        assert!(!found, "{} holds the workspace's path", built.slot);
    }
}

#[test]
fn building_again_changes_no_byte() {
    let ideal = guest("method.ideal");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let before = fs::read(&ideal.path).unwrap();
    let again = Builder::new(root.unwrap())
        .build(&[&ideal.package], &mut |_| {})
        .unwrap();
    assert!(again.first().unwrap().fresh);
    assert_eq!(fs::read(&ideal.path).unwrap(), before);
}

#[test]
fn what_cargo_refuses_is_told_in_its_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let built = Builder::new(root.unwrap()).build(&["kassette-method-nowhere"], &mut |_| {});
    let Err(BuildError::Cargo(text)) = built else {
        panic!("{built:?}");
    };
    assert!(text.contains("kassette-method-nowhere"), "{text}");
}

#[test]
fn progress_tells_of_each_crate_and_component() {
    let ideal = guest("method.ideal");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let mut compiled = Vec::new();
    let mut components = Vec::new();
    let built = Builder::new(root.unwrap()).build(&[&ideal.package], &mut |step| match step {
        Progress::Compiled { package, .. } => compiled.push(package),
        Progress::Component(component) => components.push(component),
        Progress::Waiting | Progress::Installing(_) => {}
    });
    assert_eq!(components, built.unwrap());
    for package in ["kassette-plugin", &ideal.package] {
        assert!(compiled.iter().any(|one| one == package), "{compiled:?}");
    }
}

#[test]
fn components_go_where_they_are_wanted() {
    let ideal = guest("method.ideal");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let folder = tempfile::tempdir().unwrap();
    let built = Builder::new(root.unwrap())
        .out_dir(folder.path())
        .build(&[&ideal.package], &mut |_| {})
        .unwrap();
    assert!(!built.first().unwrap().fresh);
    let names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["method.ideal.wasm"]);
}

#[test]
fn discovery_finds_slots_and_folders() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let guests = Builder::new(root.unwrap()).discover().unwrap();
    let card = guests.iter().find(|one| one.slot == "method.credit_card");
    let card = card.unwrap();
    assert_eq!(card.package, "kassette-method-credit-card");
    assert!(card.folder.ends_with("plugins/credit-card"));
    assert!(guests.is_sorted_by(|a, b| a.slot < b.slot));
}
