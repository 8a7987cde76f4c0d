//! Properties of a module that need no call for a decision.

use kassette_domain::id::{Slot, SlotKind};
use kassette_domain::money::Currency;
use kassette_domain::provider::SecretSpec;
use kassette_domain::setting::SettingSpec;
use kassette_runtime::{Opened, OpenedModule};
use serde::Serialize;

/// Properties of a module, as `kassette plugin inspect` shows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// The slot in its description.
    pub slot: String,
    /// `method` or `provider`.
    pub kind: &'static str,
    /// Name for the payer.
    pub name: String,
    /// Version of the module itself.
    pub version: String,
    /// SHA-256 of the file, in hexadecimal.
    pub digest: String,
    /// Version of the contract for which it was built.
    pub wit: String,
    /// `native` or `interpreted`.
    pub class: &'static str,
    /// Limit of CPU time per call, in milliseconds.
    pub cpu_ms: u128,
    /// Limit of memory per call, in bytes.
    pub memory_bytes: usize,
    /// Initial size of its largest memory, in bytes.
    pub initial_memory_bytes: u64,
    /// Number of linear memories in all its parts.
    pub memories: u32,
    pub file_bytes: usize,
    /// Size of its machine code and data in bytes.
    pub code_bytes: usize,
    /// Whether it imports WASI, which gives it no information beyond the request.
    pub wasi: bool,
    /// Full names of its imports.
    pub imports: Vec<String>,
    /// Full names of its exports.
    pub exports: Vec<String>,
    /// Currencies of a payment method. Empty if it accepts all, or for a provider.
    pub currencies: Vec<String>,
    /// Payment methods of a provider.
    pub services: Vec<Served>,
    /// Settings that it reads.
    pub settings: Vec<Needed>,
    /// Secrets that a provider uses.
    pub secrets: Vec<Needed>,
    /// Tokens that a provider obtains at run time.
    pub tokens: Vec<String>,
}

/// A payment method that a provider supports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Served {
    /// Id of the method.
    pub method: String,
    /// Supported currencies. Empty if it supports all.
    pub currencies: Vec<String>,
}

/// A setting or secret of a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Needed {
    pub name: String,
    /// Whether a configuration without it is rejected.
    pub required: bool,
    /// Its purpose, and where an operator finds the value.
    pub help: String,
    /// Required form of a value.
    pub form: String,
    /// Value that applies if it is absent. Always `None` for a secret.
    pub default: Option<String>,
}

impl Facts {
    /// Properties of a module whose file has `file_bytes` bytes.
    #[must_use]
    pub fn new(opened: &Opened, file_bytes: usize) -> Self {
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

/// Name of the WIT world for a slot's module.
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
