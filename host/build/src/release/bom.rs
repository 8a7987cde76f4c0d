//! The bill of materials: every crate compiled into the program and its modules (CycloneDX 1.6).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{BuildError, cargo};

const PROGRAM: &str = "kassette";

/// A bill of materials and the version of the program it describes.
pub(super) struct Bom {
    pub(super) version: String,
    pub(super) json: Vec<u8>,
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

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    name: String,
    version: String,
    license: String,
}

/// Lists the crates of the program and of the modules' packages, without network access.
pub(super) fn read(root: &Path, target: &str, modules: &[&str]) -> Result<Bom, BuildError> {
    let packages = [&[PROGRAM], modules].concat();
    let crates = crates(&cargo::tree(root, target, &packages)?);
    let path = root.join("Cargo.lock");
    let text = fs::read_to_string(&path).map_err(BuildError::io("read", &path))?;
    let lock: Lock = toml::from_str(&text).map_err(|error| BuildError::Lock(error.to_string()))?;
    let checksums: BTreeMap<_, _> = lock
        .package
        .iter()
        .filter_map(|locked| {
            let checksum = locked.checksum.as_deref()?;
            Some(((locked.name.as_str(), locked.version.as_str()), checksum))
        })
        .collect();
    let (program, others): (Vec<&Crate>, Vec<&Crate>) =
        crates.iter().partition(|it| it.name == PROGRAM);
    let [program] = program[..] else {
        return Err(BuildError::Lock(format!("it has no {PROGRAM}")));
    };
    let components: Vec<Value> = others
        .iter()
        .map(|it| {
            let checksum = checksums.get(&(it.name.as_str(), it.version.as_str()));
            component("library", it, checksum.copied())
        })
        .collect();
    let bom = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": { "component": component("application", program, None) },
        "components": components,
    });
    Ok(Bom {
        version: program.version.clone(),
        json: serde_json::to_vec_pretty(&bom)?,
    })
}

/// Parses the output of `cargo tree`. Each line has the name, the version, perhaps more, a tab and the license,
/// and ends in `(*)` if the crate was listed before.
fn crates(tree: &str) -> BTreeSet<Crate> {
    let read = |line: &str| {
        let (package, license) = line.split_once('\t')?;
        let mut words = package.split(' ');
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        let license = license.strip_suffix(" (*)").unwrap_or(license);
        Some(Crate {
            name: name.to_owned(),
            version: version.to_owned(),
            // Old manifests write "MIT/Apache-2.0", which is not an SPDX expression.
            license: license.replace('/', " OR "),
        })
    };
    tree.lines().filter_map(read).collect()
}

fn component(kind: &str, it: &Crate, checksum: Option<&str>) -> Value {
    let purl = format!("pkg:cargo/{}@{}", it.name, it.version);
    let mut component = json!({
        "type": kind, "bom-ref": purl, "name": it.name, "version": it.version, "purl": purl,
    });
    if !it.license.is_empty() {
        component["licenses"] = json!([{ "expression": it.license }]);
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
    fn a_bill_names_each_crate_once_with_licence_and_checksum() {
        let tree = "kassette v1.0.0 (/w/host/server)\tApache-2.0\n\
            serde v1.0.1\tMIT/Apache-2.0\n\
            serde_derive v1.0.1 (proc-macro)\tMIT\n\
            serde v1.0.1\tMIT/Apache-2.0 (*)\n\
            odd v2.0.0\t\n\n";
        let found = crates(tree);
        let named = |it: &Crate| format!("{} {} {}", it.name, it.version, it.license);
        let expected = [
            "kassette 1.0.0 Apache-2.0",
            "odd 2.0.0 ",
            "serde 1.0.1 MIT OR Apache-2.0",
            "serde_derive 1.0.1 MIT",
        ];
        assert_eq!(found.iter().map(named).collect::<Vec<_>>(), expected);
        let serde = found.iter().find(|it| it.name == "serde").unwrap();
        let serde = component("library", serde, Some("ab"));
        assert_eq!(serde["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(serde["hashes"][0]["content"], "ab");
        assert_eq!(serde["purl"], "pkg:cargo/serde@1.0.1");
        let odd = found.iter().find(|it| it.name == "odd").unwrap();
        assert_eq!(component("library", odd, None)["licenses"], Value::Null);
    }
}
