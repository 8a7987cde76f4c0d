//! Merchants, their keys and their domains.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::{ArgGroup, Args, Subcommand};
use http::Method;
use kassette_domain::key::Environment;
use serde_json::{Map, Value, json};

use super::{Action, Paging, environment};
use crate::cli::remote::call::{Call, Shape};
use crate::files::read_regular;

/// Commands for merchants.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum MerchantAction {
    /// Create a merchant.
    Create {
        /// Shown to payers.
        #[arg(long)]
        name: String,
        /// Approve it for real payments.
        #[arg(long)]
        live_approved: bool,
        #[command(flatten)]
        terms: Terms,
    },
    /// List merchants, newest first.
    List {
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a merchant.
    Show {
        /// The merchant's number.
        id: u64,
    },
    /// Show the current conversion rate of each currency, and its age.
    Rates {
        /// The merchant's number.
        id: u64,
    },
    /// Change a merchant; absent options leave values unchanged.
    #[command(group = ArgGroup::new("change").required(true).multiple(true)
        .args(["name", "live_approved", "fx_rates", "policy", "colour", "logo", "show_provider", "support"]))]
    Update {
        /// The merchant's number.
        id: u64,
        /// Shown to payers.
        #[arg(long)]
        name: Option<String>,
        /// Whether it is approved for real payments: true or false. Needs --actor and --reason.
        #[arg(long)]
        live_approved: Option<bool>,
        /// Accept a rate that is more than 20 % off the previous one. Needs --actor and --reason.
        #[arg(long, requires = "fx_rates")]
        force: bool,
        #[command(flatten)]
        terms: Terms,
    },
}

/// Rates, policy and brand.
#[derive(Args, Debug)]
pub(in crate::cli) struct Terms {
    /// US dollars per unit, such as EUR=1.08; EUR=none removes the rate. May be repeated.
    #[arg(long = "fx-rate", value_name = "CODE=RATE", value_parser = rate)]
    fx_rates: Vec<(String, Option<String>)>,
    /// Routing and risk policy as a JSON merge patch, or @FILE with it.
    #[arg(long, value_name = "JSON|@FILE")]
    policy: Option<String>,
    /// Background of name and amount on its pages, such as #12453a; none is the gateway's own.
    #[arg(long, value_name = "#RRGGBB|none")]
    colour: Option<String>,
    /// A PNG file for its pages, at most 320 pixels per side; none removes the logo.
    #[arg(long, value_name = "FILE|none")]
    logo: Option<String>,
    /// Whether each method's row names its provider: true or false.
    #[arg(long)]
    show_provider: Option<bool>,
    /// An e-mail address or https URL at which payers can ask about their order; none removes it.
    #[arg(long, value_name = "ADDRESS|URL|none")]
    support: Option<String>,
}

const MERCHANTS: Shape = Shape::List(
    "merchants",
    &[
        ("ID", "/merchant_id"),
        ("Name", "/name"),
        ("Live", "/live_approved"),
        ("Created", "/created_at"),
    ],
);

const RATES: Shape = Shape::List(
    "rates",
    &[
        ("Currency", "/currency"),
        ("US dollars per unit", "/rate"),
        ("Source", "/source"),
        ("Set at", "/set_at"),
        ("Age, s", "/age_seconds"),
        ("Usable", "/usable"),
    ],
);

impl Terms {
    fn put(self, body: &mut Map<String, Value>) -> Result<(), String> {
        if !self.fx_rates.is_empty() {
            let rates = self
                .fx_rates
                .into_iter()
                .map(|(code, rate)| (code, json!(rate)));
            body.insert("fx_rates".into(), Value::Object(rates.collect()));
        }
        if let Some(policy) = self.policy {
            body.insert("policy".into(), json_of(&policy)?);
        }
        let or_none = |text: String| match text.as_str() {
            "none" => Value::Null,
            _ => text.into(),
        };
        let logo = self.logo.map(|path| match path.as_str() {
            "none" => Ok(Value::Null),
            _ => file(path).map(Value::from),
        });
        let brand = [
            ("colour", self.colour.map(or_none)),
            ("logo", logo.transpose()?),
            ("show_provider", self.show_provider.map(Value::from)),
            ("support", self.support.map(or_none)),
        ];
        let brand = brand
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let brand: Map<_, _> = brand.collect();
        if !brand.is_empty() {
            body.insert("brand".into(), brand.into());
        }
        Ok(())
    }
}

impl Action for MerchantAction {
    fn call(self) -> Result<Call, String> {
        let one = |method, id: u64| Call::new(method, ["merchants".to_owned(), id.to_string()]);
        Ok(match self {
            Self::Create {
                name,
                live_approved,
                terms,
            } => {
                let mut body = Map::new();
                body.insert("name".into(), name.into());
                body.insert("live_approved".into(), live_approved.into());
                terms.put(&mut body)?;
                Call::new(Method::POST, ["merchants"]).body(body.into())
            }
            Self::List { paging } => {
                paging.put(Call::new(Method::GET, ["merchants"]).shown(MERCHANTS))
            }
            Self::Show { id } => one(Method::GET, id),
            Self::Rates { id } => {
                let path = ["merchants".to_owned(), id.to_string(), "rates".to_owned()];
                Call::new(Method::GET, path).shown(RATES)
            }
            Self::Update {
                id,
                name,
                live_approved,
                force,
                terms,
            } => {
                let mut body = Map::new();
                body.extend(force.then(|| ("force".to_owned(), true.into())));
                body.extend(name.map(|name| ("name".to_owned(), name.into())));
                body.extend(live_approved.map(|on| ("live_approved".to_owned(), on.into())));
                terms.put(&mut body)?;
                one(Method::PATCH, id).body(body.into())
            }
        })
    }
}

/// The owner of keys or endpoints.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct Owner {
    /// The merchant's number.
    #[arg(long, alias = "merchant")]
    merchant_id: Option<u64>,
    /// The reseller's number.
    #[arg(long, alias = "reseller")]
    reseller_id: Option<u64>,
}

impl Owner {
    pub(super) fn call(&self, method: Method, what: &'static str) -> Call {
        let (noun, id) = match (self.merchant_id, self.reseller_id) {
            (Some(id), _) => ("merchants", id),
            (None, id) => ("resellers", id.unwrap_or_default()),
        };
        Call::new(method, [noun, &id.to_string(), what])
    }
}

/// Commands for API keys.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum KeyAction {
    /// Issue a key; it is shown only this time.
    Create {
        #[command(flatten)]
        owner: Owner,
        /// test or live.
        #[arg(long, value_parser = environment)]
        environment: Environment,
        /// payments:create, payments:read, payments:refund or account:manage, the first two if absent; for a
        /// reseller's key reseller:invite, reseller:payments:create, reseller:payments:read, reseller:refund or
        /// account:manage, the first three if absent. May be repeated.
        #[arg(long = "scope")]
        scopes: Vec<String>,
        /// Expiry, such as 2030-01-31T12:00:00Z.
        #[arg(long)]
        expires_at: Option<String>,
    },
    /// List the keys of a merchant or a reseller, newest first.
    List {
        #[command(flatten)]
        owner: Owner,
        #[command(flatten)]
        paging: Paging,
    },
    /// Replace a key by a new one.
    Rotate {
        /// The old key's id.
        key_id: String,
        /// Hours for which the old key remains valid.
        #[arg(long)]
        overlap_hours: Option<u64>,
    },
    /// Revoke a key immediately.
    #[command(alias = "delete")]
    Revoke {
        /// The key's id.
        key_id: String,
    },
}

const KEYS: Shape = Shape::List(
    "keys",
    &[
        ("ID", "/key_id"),
        ("Environment", "/environment"),
        ("Ends in", "/hint"),
        ("Revoked", "/revoked_at"),
        ("Expires", "/expires_at"),
        ("Scopes", "/scopes"),
        ("Created", "/created_at"),
        ("Last used", "/last_used_at"),
    ],
);

impl Action for KeyAction {
    fn call(self) -> Result<Call, String> {
        Ok(match self {
            Self::Create {
                owner,
                environment,
                scopes,
                expires_at,
            } => {
                let scopes = (!scopes.is_empty()).then_some(scopes);
                let body = json!({ "environment": environment, "scopes": scopes, "expires_at": expires_at });
                owner
                    .call(Method::POST, "keys")
                    .body(body)
                    .shown(Shape::Once)
            }
            Self::List { owner, paging } => paging.put(owner.call(Method::GET, "keys").shown(KEYS)),
            Self::Rotate {
                key_id,
                overlap_hours,
            } => Call::new(Method::POST, ["keys", &key_id, "rotate"])
                .body(json!({ "overlap_hours": overlap_hours }))
                .shown(Shape::Once),
            Self::Revoke { key_id } => {
                let done = format!("The key {key_id} opens nothing any more.");
                Call::new(Method::DELETE, ["keys", &key_id]).shown(Shape::Nothing(done))
            }
        })
    }
}

/// Commands for verified shop domains.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum DomainAction {
    /// Accept return URLs under a domain.
    Create {
        /// The merchant's number.
        #[arg(long, alias = "merchant")]
        merchant_id: u64,
        /// The domain, such as shop.example.
        #[arg(long)]
        domain: String,
        /// Accept its subdomains as well.
        #[arg(long)]
        include_subdomains: bool,
    },
    /// List a merchant's domains.
    List {
        /// The merchant's number.
        #[arg(long, alias = "merchant")]
        merchant_id: u64,
    },
    /// Remove a domain, so that its return URLs are refused.
    Delete {
        /// The merchant's number.
        #[arg(long, alias = "merchant")]
        merchant_id: u64,
        /// The domain, such as shop.example.
        #[arg(long)]
        domain: String,
    },
}

const DOMAINS: Shape = Shape::List(
    "domains",
    &[("Domain", "/domain"), ("Subdomains", "/include_subdomains")],
);

impl Action for DomainAction {
    fn call(self) -> Result<Call, String> {
        Ok(match self {
            Self::Create {
                merchant_id,
                domain,
                include_subdomains,
            } => {
                let body = json!({ "domain": domain, "include_subdomains": include_subdomains });
                let path = [
                    "merchants".to_owned(),
                    merchant_id.to_string(),
                    "domains".to_owned(),
                ];
                Call::new(Method::POST, path).body(body)
            }
            // The response with the merchant contains its domains.
            Self::List { merchant_id } => {
                let path = ["merchants".to_owned(), merchant_id.to_string()];
                Call::new(Method::GET, path).shown(DOMAINS)
            }
            Self::Delete {
                merchant_id,
                domain,
            } => {
                let done = format!("{domain} is not verified any more.");
                let id = merchant_id.to_string();
                let path = ["merchants", &id, "domains", &domain];
                Call::new(Method::DELETE, path).shown(Shape::Nothing(done))
            }
        })
    }
}

/// Parses `EUR=1.08` or `EUR=none`.
fn rate(text: &str) -> Result<(String, Option<String>), String> {
    let (code, rate) = text.split_once('=').ok_or("must be like EUR=1.08")?;
    Ok((code.to_owned(), (rate != "none").then(|| rate.to_owned())))
}

/// Reads a file and encodes it in base64.
fn file(path: String) -> Result<String, String> {
    let bytes =
        read_regular(Path::new(&path)).map_err(|error| format!("--logo: {path}: {error}"))?;
    Ok(BASE64_STANDARD.encode(bytes))
}

/// Parses JSON, or reads it from the file after an `@`.
fn json_of(text: &str) -> Result<Value, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("--policy: {error}");
    match text.strip_prefix('@') {
        None => serde_json::from_str(text).map_err(|error| wrong(&error)),
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("--policy: {path}: {error}"))?;
            serde_json::from_str(&text).map_err(|error| wrong(&error))
        }
    }
}
