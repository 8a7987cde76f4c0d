//! What can be told of a module without asking it for a decision.

use kassette_domain::id::{Slot, SlotKind};
use kassette_domain::money::Currency;
use kassette_domain::provider::SecretSpec;
use kassette_domain::setting::SettingSpec;
use kassette_runtime::{Opened, OpenedModule};
use serde::Serialize;

/// A module's particulars, as `kassette plugin inspect` shows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The slot that it describes itself for.
    pub slot: String,
    /// `method` or `provider`.
    pub kind: &'static str,
    /// Shown to the payer.
    pub name: String,
    /// The module's own version.
    pub version: String,
    /// SHA-256 of the file, in hexadecimal.
    pub digest: String,
    /// Version of the contract that it was built for.
    pub wit: String,
    /// `native` or `interpreted`.
    pub class: &'static str,
    /// CPU time that a call may use, in milliseconds.
    pub cpu_ms: u128,
    /// Memory that a call may use, in bytes.
    pub memory_bytes: usize,
    /// Memory that its largest memory begins with, in bytes.
    pub initial_memory_bytes: u64,
    /// Linear memories, of all its parts.
    pub memories: u32,
    pub file_bytes: usize,
    /// Size of its machine code and data.
    pub code_bytes: usize,
    /// Whether it has WASI, which tells it nothing that the question does not.
    pub wasi: bool,
    /// Full names of what it imports.
    pub imports: Vec<String>,
    /// Full names of what it exports.
    pub exports: Vec<String>,
    /// Of a method: currencies, none where it takes any.
    pub currencies: Vec<String>,
    /// Of a provider: what it can take.
    pub services: Vec<Served>,
    /// Settings it knows.
    pub settings: Vec<Needed>,
    /// Of a provider: secrets it uses.
    pub secrets: Vec<Needed>,
    /// Of a provider: tokens it obtains at run time.
    pub tokens: Vec<String>,
}

/// A method that a provider can take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Served {
    /// Its id.
    pub method: String,
    /// In which currencies; none means any.
    pub currencies: Vec<String>,
}

/// A setting or a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Needed {
    pub name: String,
    /// Whether a configuration without it is refused.
    pub required: bool,
    /// What it is for, and where an operator finds it.
    pub help: String,
    /// What a value has to be.
    pub form: String,
    /// What holds where it is absent.
    pub default: Option<String>,
}

impl Facts {
    /// Those of a module of so many bytes.
    #[must_use]
    pub fn of(opened: &Opened, file_bytes: usize) -> Self {
        let mut facts = Self {
            slot: opened.slot.to_string(),
            kind: world(&opened.slot),
            name: String::new(),
            version: String::new(),
            digest: opened.digest.to_string(),
            wit: opened.wit.clone(),
            class: opened.class.as_str(),
            cpu_ms: opened.limits.cpu.as_millis(),
            memory_bytes: opened.limits.memory,
            initial_memory_bytes: opened.memory_bytes,
            memories: opened.memories,
            file_bytes,
            code_bytes: opened.code_bytes,
            wasi: opened.imports.iter().any(|name| name.starts_with("wasi:")),
            imports: opened.imports.clone(),
            exports: opened.exports.clone(),
            currencies: Vec::new(),
            services: Vec::new(),
            settings: Vec::new(),
            secrets: Vec::new(),
            tokens: Vec::new(),
        };
        match &opened.module {
            OpenedModule::Method(module) => {
                let said = module.description();
                (facts.name, facts.version) = (said.label.clone(), said.version.clone());
                facts.currencies = codes(&said.currencies);
                facts.settings = said.settings.iter().map(setting).collect();
            }
            OpenedModule::Provider(module) => {
                let said = module.description();
                (facts.name, facts.version) = (said.label.clone(), said.version.clone());
                facts.services = said
                    .services
                    .iter()
                    .map(|service| Served {
                        method: service.method.to_string(),
                        currencies: codes(&service.currencies),
                    })
                    .collect();
                facts.settings = said.settings.iter().map(setting).collect();
                facts.secrets = said.secrets.iter().map(secret).collect();
                facts.tokens = said.tokens.clone();
            }
        }
        facts
    }
}

/// The world that a slot's module speaks.
pub(crate) fn world(slot: &Slot) -> &'static str {
    match slot.kind() {
        SlotKind::Method => "method",
        SlotKind::Provider => "provider",
    }
}

fn codes(currencies: &[Currency]) -> Vec<String> {
    currencies
        .iter()
        .map(|currency| currency.code().to_owned())
        .collect()
}

fn setting(spec: &SettingSpec) -> Needed {
    Needed {
        name: spec.name.clone(),
        required: spec.required,
        help: spec.help.clone(),
        form: spec.form.to_string(),
        default: spec.default.clone(),
    }
}

fn secret(spec: &SecretSpec) -> Needed {
    Needed {
        name: spec.name.clone(),
        required: spec.required,
        help: spec.help.clone(),
        form: spec.encoding.words().into(),
        default: None,
    }
}
