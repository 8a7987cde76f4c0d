//! The sample accounts in `config/providers`: with credentials filled in, each is a valid account.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

const ENDING: &str = ".example.toml";
/// A credential that is valid as text, as hexadecimal and as base64.
const CREDENTIAL: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn samples() -> BTreeMap<String, PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    let folder = root.unwrap().join("config/providers");
    let files = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            (name.strip_suffix(ENDING).unwrap().to_owned(), path.clone())
        });
    files.collect()
}

/// Environment variables from which a sample takes its credentials.
fn variables(sample: &str) -> Vec<String> {
    let table: toml::Table = toml::from_str(sample).unwrap();
    let secrets = table["secrets"].as_table().unwrap().values();
    let variable = |secret: &toml::Value| secret["env"].as_str().unwrap().to_owned();
    secrets.map(variable).collect()
}

#[test]
fn every_module_of_a_vendor_has_a_sample() {
    let slots = kassette_build::guests().iter().map(|built| &built.slot);
    let modules = slots.filter_map(|slot| slot.strip_prefix("provider."));
    let mut modules: Vec<&str> = modules.filter(|module| *module != "sandbox").collect();
    modules.sort_unstable();
    assert_eq!(samples().into_keys().collect::<Vec<_>>(), modules);
}

#[test]
fn a_copied_sample_is_an_account_once_its_credentials_are_there() {
    for (module, sample) in samples() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let main =
            "public_url = \"https://pay.example\"\ndata_dir = \"data\"\nplugin_dir = \"plugins\"\n";
        std::fs::write(at("kassette.toml"), main).unwrap();
        for name in ["plugins", "providers"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        for built in kassette_build::guests_with(&[&module]) {
            let file = at("plugins").join(format!("{}.wasm", built.slot));
            std::fs::copy(&built.path, file).unwrap();
        }
        let text = std::fs::read_to_string(sample).unwrap();
        std::fs::write(at("providers").join(format!("{module}-eu.toml")), &text).unwrap();
        let checked = |credentials: &[String]| -> Value {
            let output = Command::new(env!("CARGO_BIN_EXE_kassette"))
                .args(["config", "check", "--json", "--config"])
                .arg(folder.path())
                .env(
                    "KASSETTE_MASTER_KEY",
                    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
                )
                .envs(credentials.iter().map(|name| (name, CREDENTIAL)))
                .output()
                .unwrap();
            serde_json::from_slice(&output.stdout).unwrap()
        };
        let variables = variables(&text);
        let found = checked(&variables);
        assert_eq!(found["problems"], json!([]), "{module}");
        assert_eq!(
            (&found["accounts"], &found["warnings"]),
            (&json!(1), &json!([])),
            "{module}"
        );
        let misspelt = format!("{text}\n[methods.idael]\n");
        std::fs::write(at("providers").join(format!("{module}-eu.toml")), misspelt).unwrap();
        std::fs::create_dir_all(at("methods")).unwrap();
        std::fs::write(at("methods/idael.toml"), "order = \"cost\"\n").unwrap();
        let found = checked(&variables);
        let (refused, warned) = (found["problems"].to_string(), found["warnings"].to_string());
        assert!(
            refused.contains("methods.idael is unknown"),
            "{module}: {refused}"
        );
        assert!(
            warned.contains("no module method.idael"),
            "{module}: {warned}"
        );
        // Proves that the check reads the credentials: without one of them, it finds a problem.
        assert_ne!(checked(&variables[1..])["problems"], json!([]), "{module}");
    }
}
