//! Who ranks first where, and what is to go wrong there.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::harness::{Server, unique};
use crate::table::currency;
use crate::world;

/// Every fault of `dev/faults`, and none.
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
/// Payments that make a batch worth its while.
const LEAST: usize = 15;
/// Calls that one order of a fault that hangs or refuses spoils: each costs seconds, and after six the
/// account is not used anyway.
const FEW: u32 = 4;
/// Calls that an order of any other fault spoils.
const MANY: u32 = 1000;

/// A shop of which a method's first account is another one than at the next shop.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) key: String,
    pub(crate) method: String,
    /// In rank.
    accounts: Vec<String>,
}

/// Every way that payments can be routed.
pub(crate) struct Routes {
    routes: Vec<Route>,
    /// All accounts, by whose books is judged.
    pub(crate) accounts: BTreeSet<String>,
}

/// What one payer does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) route: Route,
    pub(crate) fault: &'static str,
    pub(crate) outcome: &'static str,
    pub(crate) comes_back: bool,
    /// What an operator decides about it, where it comes to a review.
    pub(crate) decision: Option<&'static str>,
}

/// Payments that meet one fault at the account that ranks first for them.
pub(crate) struct Batch {
    pub(crate) account: String,
    pub(crate) fault: &'static str,
    pub(crate) times: u32,
    pub(crate) plans: Vec<Plan>,
}

impl Route {
    /// Who takes it when all are well.
    pub(crate) fn first(&self) -> &str {
        &self.accounts[0]
    }
}

impl Routes {
    /// Opens shops until every account has been the first in rank of each of its methods: each shop
    /// leaves out who was first at the one before.
    pub(crate) async fn of(server: &Server) -> Self {
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
            // Every other shop has each payment looked at before it is taken.
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

    /// Those on which an account ranks first; with others behind it, where there are such.
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

/// A merchant whose methods go to these accounts; its key.
async fn shop(server: &Server, methods: &BTreeMap<String, Vec<String>>, reviewed: bool) -> String {
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
    let body = json!({ "environment": "test" });
    let path = format!("/merchants/{id}/keys");
    let issued = server.admin("POST", &path, Some(&body)).await;
    issued.expect(201).json()["key"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// A method's accounts as the routing would choose them for a shop.
async fn ranked(server: &Server, key: &str, method: &str, accounts: &[String]) -> Vec<String> {
    if accounts.is_empty() {
        return Vec::new();
    }
    // A listing leaves out what is late once.
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

/// Batches over all faults and all accounts that rank first somewhere, as far as the payments reach.
pub(crate) fn batches(routes: &Routes, payments: usize) -> Vec<Batch> {
    let all = FAULTS.len() * routes.accounts.len();
    let number = (payments / LEAST).clamp(FAULTS.len(), all.max(FAULTS.len()));
    let accounts: Vec<&String> = routes.accounts.iter().collect();
    let batch = |number_of: usize| {
        let fault = FAULTS[number_of % FAULTS.len()];
        // One fault meets one account after the other, and neighbouring batches different ones.
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
