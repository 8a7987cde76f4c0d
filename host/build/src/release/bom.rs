//! The bill of materials: every crate that is compiled into the program and its modules (CycloneDX 1.6).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::toolchain::TARGET;
use crate::{BuildError, cargo, slot_of};

/// The program's package.
const PROGRAM: &str = "kassette";

/// The bill, and the version that it is of.
pub(super) struct Bom {
    pub(super) version: String,
    pub(super) json: Vec<u8>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// None: neither for tests nor for build scripts.
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// Reads what cargo knows of a workspace, without the network.
pub(super) fn of(root: &Path, target: &str) -> Result<Bom, BuildError> {
    let program: Metadata = cargo::resolved(root, target)?;
    let modules: Metadata = cargo::resolved(root, TARGET)?;
    let mut crates = compiled_in(&program, |name| name == PROGRAM);
    crates.extend(compiled_in(&modules, |name| slot_of(name).is_some()));
    let lock = root.join("Cargo.lock");
    let text = fs::read_to_string(&lock).map_err(BuildError::io("read", &lock))?;
    let lock: Lock = toml::from_str(&text).map_err(|error| BuildError::Lock(error.to_string()))?;
    let checksums: BTreeMap<_, _> = lock
        .package
        .iter()
        .filter_map(|locked| {
            let checksum = locked.checksum.as_deref()?;
            Some(((locked.name.as_str(), locked.version.as_str()), checksum))
        })
        .collect();
    let own = crates.iter().find(|(name, ..)| *name == PROGRAM);
    let version = own.map(|(_, version, _)| (*version).to_owned());
    let version = version.ok_or_else(|| BuildError::Lock(format!("it has no {PROGRAM}")))?;
    let components: Vec<Value> = crates
        .iter()
        .filter(|(name, ..)| *name != PROGRAM)
        .map(|(name, version, license)| {
            component(
                "library",
                name,
                version,
                *license,
                checksums.get(&(*name, *version)),
            )
        })
        .collect();
    let program = crates
        .iter()
        .find(|(name, ..)| *name == PROGRAM)
        .map(|(name, version, license)| component("application", name, version, *license, None));
    let bom = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": program },
        "components": components,
    });
    Ok(Bom {
        version,
        json: serde_json::to_vec_pretty(&bom)?,
    })
}

/// Name, version and licence.
type Crate<'a> = (&'a str, &'a str, Option<&'a str>);

/// The crates that some packages of the workspace are compiled of, themselves included.
fn compiled_in(metadata: &Metadata, is_root: impl Fn(&str) -> bool) -> BTreeSet<Crate<'_>> {
    let nodes: BTreeMap<&str, &Node> = metadata
        .resolve
        .nodes
        .iter()
        .map(|node| (node.id.as_str(), node))
        .collect();
    let roots = metadata.packages.iter().filter(|it| is_root(&it.name));
    let mut waiting: Vec<&str> = roots.map(|package| package.id.as_str()).collect();
    let mut reached = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if !reached.insert(id) {
            continue;
        }
        let dependencies = nodes.get(id).into_iter().flat_map(|node| &node.deps);
        waiting.extend(
            dependencies
                .filter(|it| it.dep_kinds.iter().any(|kind| kind.kind.is_none()))
                .map(|it| it.pkg.as_str()),
        );
    }
    let packages = metadata.packages.iter();
    packages
        .filter(|package| reached.contains(package.id.as_str()))
        .map(|package| {
            let (name, version) = (package.name.as_str(), package.version.as_str());
            (name, version, package.license.as_deref())
        })
        .collect()
}

fn component(
    kind: &str,
    name: &str,
    version: &str,
    license: Option<&str>,
    checksum: Option<&&str>,
) -> Value {
    let purl = format!("pkg:cargo/{name}@{version}");
    let mut component = json!({
        "type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl,
    });
    if let Some(license) = license {
        // As crates wrote it once: MIT/Apache-2.0.
        let license = license.replace('/', " OR ");
        component["licenses"] = json!([{ "expression": license }]);
    }
    if let Some(checksum) = checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_names_what_is_compiled_in_and_neither_tests_nor_build_scripts() {
        let text = r#"{
            "packages": [
                {"id":"k","name":"kassette","version":"1.0.0","license":"Apache-2.0"},
                {"id":"s","name":"serde","version":"1.0.1","license":"MIT/Apache-2.0"},
                {"id":"c","name":"core","version":"2.0.0","license":null},
                {"id":"t","name":"proptest","version":"1.0.0","license":"MIT"},
                {"id":"b","name":"cc","version":"1.0.0","license":"MIT"},
                {"id":"o","name":"other","version":"1.0.0","license":"MIT"}
            ],
            "resolve": {"nodes": [
                {"id":"k","deps":[
                    {"pkg":"s","dep_kinds":[{"kind":"dev"},{"kind":null}]},
                    {"pkg":"t","dep_kinds":[{"kind":"dev"}]},
                    {"pkg":"b","dep_kinds":[{"kind":"build"}]}]},
                {"id":"s","deps":[{"pkg":"c","dep_kinds":[{"kind":null}]}]},
                {"id":"c","deps":[{"pkg":"s","dep_kinds":[{"kind":null}]}]},
                {"id":"o","deps":[]}
            ]}
        }"#;
        let metadata: Metadata = serde_json::from_str(text).unwrap();
        let found = compiled_in(&metadata, |name| name == PROGRAM);
        let names: Vec<_> = found.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names, ["core", "kassette", "serde"]);
        let serde = component(
            "library",
            "serde",
            "1.0.1",
            Some("MIT/Apache-2.0"),
            Some(&"ab"),
        );
        assert_eq!(serde["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(serde["hashes"][0]["content"], "ab");
        assert_eq!(serde["purl"], "pkg:cargo/serde@1.0.1");
    }
}
