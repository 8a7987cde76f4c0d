//! Which account ranks first for which shop, and the faults there.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::harness::{Server, unique};
use crate::table::currency;
use crate::world;

/// Every fault of `dev/faults`, and `none`.
const FAULTS: [&str; 23] = [
    "refuse-connection",
    "timeout-before-effect",
    "timeout-after-effect",
    "status-429",
    "status-500",
    "malformed",
    "truncated",
    "callback-twice",
    "callback-late",
    "callback-reordered",
    "callback-never",
    "callback-forged",
    "wrong-amount",
    "wrong-currency",
    "ask",
    "needs-capture",
    "capture-refused",
    "capture-short",
    "capture-late",
    "voids-approval",
    "forgets",
    "down",
    "none",
];
/// Minimum number of payments in a batch.
const LEAST: usize = 15;
/// Number of calls affected by a fault that hangs or refuses. Each costs seconds, and after six the account is not
/// used anyway.
const FEW: u32 = 4;
/// Number of calls affected by any other fault.
const MANY: u32 = 1000;

/// A shop and method. Other shops have another account ranked first for the method.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) key: String,
    pub(crate) method: String,
    /// Sorted by rank.
    accounts: Vec<String>,
}

/// All combinations of shop and method.
pub(crate) struct Routes {
    routes: Vec<Route>,
    /// All accounts, whose books are checked.
    pub(crate) accounts: BTreeSet<String>,
}

/// Decisions of one payer.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) route: Route,
    pub(crate) fault: &'static str,
    pub(crate) outcome: &'static str,
    pub(crate) comes_back: bool,
    /// An operator's decision if the payment is in review.
    pub(crate) decision: Option<&'static str>,
}

/// Payments during a fault at the account that ranks first for them.
pub(crate) struct Batch {
    pub(crate) account: String,
    pub(crate) fault: &'static str,
    pub(crate) times: u32,
    pub(crate) plans: Vec<Plan>,
}

impl Route {
    /// Route to one account only.
    pub(crate) fn to(account: &str, key: &str, method: &str) -> Self {
        Self {
            key: key.to_owned(),
            method: method.to_owned(),
            accounts: vec![account.to_owned()],
        }
    }

    /// The account that takes the payment if all accounts are available.
    pub(crate) fn first(&self) -> &str {
        &self.accounts[0]
    }
}

impl Routes {
    /// Creates shops until every account has ranked first for each of its methods. Each shop excludes the accounts
    /// that ranked first at the previous ones.
    pub(crate) async fn read(server: &Server) -> Self {
        let modules = world::modules(server).await;
        let mut methods: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for module in &modules {
            for method in &module.methods {
                let accounts = methods.entry(method.clone()).or_default();
                accounts.push(module.account.clone());
            }
        }
        let accounts = modules.into_iter().map(|module| module.account).collect();
        let mut routes = Vec::new();
        let mut shops = 0;
        while methods.values().any(|accounts| !accounts.is_empty()) {
            // In every other shop, each payment is reviewed before its capture.
            shops += 1;
            let key = shop(server, &methods, shops % 2 == 0).await;
            for (method, accounts) in &mut methods {
                let ranked = ranked(server, &key, method, accounts).await;
                if let Some(first) = ranked.first() {
                    accounts.retain(|account| account != first);
                    routes.push(Route {
                        key: key.clone(),
                        method: method.clone(),
                        accounts: ranked,
                    });
                }
            }
        }
        Self { routes, accounts }
    }

    /// Routes with this account first; only those with further accounts, if there are any.
    fn led_by(&self, account: &str) -> Vec<&Route> {
        let led = || {
            self.routes
                .iter()
                .filter(|route| route.accounts[0] == account)
        };
        let with_others: Vec<&Route> = led().filter(|route| route.accounts.len() > 1).collect();
        if with_others.is_empty() {
            led().collect()
        } else {
            with_others
        }
    }
}

/// Creates a merchant whose methods use these accounts. Returns its key.
pub(crate) async fn shop(
    server: &Server,
    methods: &BTreeMap<String, Vec<String>>,
    reviewed: bool,
) -> String {
    let policy = |accounts: &Vec<String>| json!({ "enabled": true, "providers": accounts });
    let methods: serde_json::Map<String, Value> = methods
        .iter()
        .map(|(method, accounts)| (method.clone(), policy(accounts)))
        .collect();
    let body = json!({
        "name": format!("Shop {}", unique()),
        "live_approved": false,
        "fx_rates": { "EUR": "1.08", "INR": "0.012", "CAD": "0.73" },
        "policy": {
            "methods": methods,
            "review_over_usd": reviewed.then_some("0.01"),
        },
    });
    let made = server.admin("POST", "/merchants", Some(&body)).await;
    let id = made.expect(201).json()["merchant_id"].as_u64().unwrap();
    server.refund_key(id, "test").await
}

/// Accounts of a method, in the rank that routing gives them for a shop.
async fn ranked(server: &Server, key: &str, method: &str, accounts: &[String]) -> Vec<String> {
    if accounts.is_empty() {
        return Vec::new();
    }
    // A listing omits a method once if its module is late.
    let listed = async || {
        let path = format!("/api/v1/methods?amount=49.90&currency={}", currency(method));
        let listed = server.get(key, &path).await.expect(200).json();
        let listed = listed["methods"].as_array().unwrap().clone();
        let own = listed.into_iter().find(|listed| listed["id"] == method)?;
        let providers = own["providers"].as_array().unwrap().iter();
        Some(
            providers
                .map(|one| one["id"].as_str().unwrap().to_owned())
                .collect(),
        )
    };
    server.wait_for(method, listed).await
}

/// Batches over all faults and all first accounts, as far as the number of payments allows.
pub(crate) fn batches(routes: &Routes, payments: usize) -> Vec<Batch> {
    let all = FAULTS.len() * routes.accounts.len();
    let number = (payments / LEAST).clamp(FAULTS.len(), all.max(FAULTS.len()));
    let accounts: Vec<&String> = routes.accounts.iter().collect();
    let batch = |number_of: usize| {
        let fault = FAULTS[number_of % FAULTS.len()];
        // A fault affects one account after the other, and neighboring batches affect different accounts.
        let account = accounts[(number_of / FAULTS.len() + number_of) % accounts.len()];
        let led = routes.led_by(account);
        let size = payments / number + usize::from(number_of < payments % number);
        let plans = (0..size).map(|i| Plan {
            route: led[i % led.len()].clone(),
            fault,
            outcome: match i % 12 {
                3 | 9 => "decline",
                5 => "review",
                7 => "pending",
                11 => "leave",
                _ => "approve",
            },
            comes_back: i % 2 == 0,
            decision: match (number_of + i) % 5 {
                0 | 1 => Some("approve"),
                2 | 3 => Some("decline"),
                _ => None,
            },
        });
        let hangs = fault.starts_with("timeout") || fault == "refuse-connection";
        Batch {
            account: account.clone(),
            fault,
            times: if hangs { FEW } else { MANY },
            plans: plans.collect(),
        }
    };
    (0..number).map(batch).collect()
}
